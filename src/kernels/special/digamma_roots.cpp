// digamma next to its negative roots. See digamma_roots.h.
#include "kernels/special/digamma_roots.h"

#include "kernels/special/fits.h"

namespace adjoint::special {

double digamma_near_root(double x, double otherwise) {
  constexpr int count = sizeof kDigammaRootsPieces / sizeof kDigammaRootsPieces[0];
  if (!(x < 0 && x > -count)) return otherwise;
  // One root between each two poles; the pieces stand in ascending order.
  const Piece& piece = kDigammaRootsPieces[count - 1 + static_cast<int>(x)];
  const double t = (x - piece.middle) * piece.inverse;
  return t >= -1 && t <= 1 ? kDigammaRoots.at(piece, x) : otherwise;
}

}  // namespace adjoint::special
