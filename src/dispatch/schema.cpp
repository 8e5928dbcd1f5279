// Parsing of op schemas. Runs at import, on text we wrote: a mistake aborts with the schema's text.
#include "dispatch/schema.h"

#include <cstdlib>
#include <map>
#include <stdexcept>

namespace adjoint {
namespace {

std::string trim(const std::string& s) {
  size_t a = s.find_first_not_of(' '), b = s.find_last_not_of(' ');
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> split_arguments(const std::string& s) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : s) {
    depth += c == '[' || c == '(';
    depth -= c == ']' || c == ')';
    if (c == ',' && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty()) parts.push_back(trim(part));
  return parts;
}

void set_type(Argument& a, std::string type) {
  static const std::map<std::string, ArgType> types = {{"Tensor", ArgType::Tensor},
                                                       {"Operand", ArgType::Operand},
                                                       {"Tensor[]", ArgType::TensorList},
                                                       {"Tensor?[]", ArgType::TensorList},
                                                       {"Scalar", ArgType::Scalar},
                                                       {"int", ArgType::Int},
                                                       {"float", ArgType::Float},
                                                       {"bool", ArgType::Bool},
                                                       {"str", ArgType::Str},
                                                       {"int[]", ArgType::Ints},
                                                       {"int[*]", ArgType::Ints},
                                                       {"dtype", ArgType::DType},
                                                       {"any", ArgType::Any},
                                                       {"Tensor[*]", ArgType::TensorList}};
  a.type_text = type;
  if (type.back() == '?') {
    a.optional = true;
    type.pop_back();
  }
  a.variadic = type == "int[*]" || type == "Tensor[*]";
  auto found = types.find(type);
  if (found == types.end()) throw std::logic_error("unknown type in schema: " + type);
  a.type = found->second;
}

Value parse_default(const Argument& a, const std::string& s) {
  if (s == "None") return Value();
  if (s == "True") return Value(true);
  if (s == "False") return Value(false);
  if (s[0] == '\'') return Value(s.substr(1, s.size() - 2));
  if (s[0] == '[') {
    Dims d;
    for (auto& item : split_arguments(s.substr(1, s.size() - 2)))
      d.push_back(std::atoll(item.c_str()));
    return Value(d);
  }
  bool is_float =
      s.find_first_of(".e") != std::string::npos || s == "inf" || a.type == ArgType::Float;
  if (is_float) return Value(std::strtod(s.c_str(), nullptr));
  if (a.type == ArgType::Ints) return Value(Dims{std::atoll(s.c_str())});
  return Value(static_cast<int64_t>(std::atoll(s.c_str())));
}

Argument parse_argument(const std::string& part) {
  Argument a;
  std::string left = part;
  if (size_t eq = part.find('='); eq != std::string::npos) {
    a.has_default = true;
    a.default_text = trim(part.substr(eq + 1));
    left = trim(part.substr(0, eq));
  }
  size_t colon = left.find(':');
  std::string names = left.substr(0, colon);
  size_t bar = names.find('|');
  a.name = trim(names.substr(0, bar));
  while (bar != std::string::npos) {
    size_t next = names.find('|', bar + 1);
    a.other_names.push_back(trim(names.substr(bar + 1, next - bar - 1)));
    bar = next;
  }
  set_type(a, colon == std::string::npos ? "Tensor" : trim(left.substr(colon + 1)));
  if (a.has_default) a.default_value = parse_default(a, a.default_text);
  return a;
}

}  // namespace

Schema parse_schema(const char* text) {
  Schema s;
  s.text = text;
  size_t open = s.text.find('('), close = s.text.rfind(')');
  if (open == std::string::npos || close == std::string::npos)
    throw std::logic_error("bad schema: " + s.text);
  std::string full = s.text.substr(0, open);
  size_t dot = full.find('.');
  s.name = full.substr(0, dot);
  if (dot != std::string::npos) s.overload = full.substr(dot + 1);
  bool keyword_only = false;
  for (const std::string& part : split_arguments(s.text.substr(open + 1, close - open - 1))) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    s.arguments.push_back(parse_argument(part));
    s.arguments.back().keyword_only = keyword_only;
  }
  return s;
}

std::string python_signature(const Schema& schema) {
  std::string out = "(";
  bool star = false;
  for (const Argument& a : schema.arguments) {
    if (out.size() > 1) out += ", ";
    if (a.keyword_only && !star) {
      out += "*, ";
      star = true;
    }
    if (a.variadic && !a.has_default) {
      out += "*" + a.name;
      star = true;
    } else {
      out += a.name + (a.has_default ? "=" + a.default_text : "");
    }
  }
  return out + ")";
}

}  // namespace adjoint
