"""The memory behind tensors: typed and untyped storages, files as memory."""

import copy
import io
import os
import tempfile
import warnings

import torch

warnings.simplefilter("ignore")  # typed storages are deprecated, and say so

x = torch.arange(6.0).view(2, 3)
s, u = x.storage(), x.untyped_storage()
print(s, s.dtype, s.size(), s.nbytes(), len(s), s[1], s.tolist(), s.device, s.element_size())
s[2] = 9.0
print(x, s.data_ptr() == x.data_ptr(), s.clone().data_ptr() == s.data_ptr())
s.fill_(1)
print(x, u.nbytes(), u.size(), u[:3], u[0], u.device, torch.is_storage(u), torch.is_storage(x))

print(torch.FloatStorage([1, 2, 3]), torch.UntypedStorage([1, 2]), repr(torch.FloatStorage))
print(isinstance(s, torch.FloatStorage), isinstance(s, torch.LongStorage), x.storage_type())
print(s.long().tolist(), s.type(), torch.FloatStorage.dtype, torch.zeros(0).storage().size())

longs = torch.LongStorage(4).fill_(3)
longs.resize_(6)
print(longs.size(), longs[3], longs.copy_(torch.LongStorage([1, 2, 3, 4, 5, 6])).tolist())
print(torch.FloatTensor(torch.FloatStorage([1, 2])))
print(torch.empty(0).set_(torch.FloatStorage([1, 2, 3, 4]), 1, (2,), (1,)))
view = torch.empty(0).set_(x.untyped_storage(), 0, (3, 2))
view[0, 0] = 77
print(view, x[0, 0])
print(torch.tensor(torch.UntypedStorage([0, 0, 128, 63]), dtype=torch.float32))
print(torch.ShortStorage.from_buffer(b"\0\1\0\2", "big").tolist())

for attempt in (
    lambda: torch.FloatStorage(1.5),
    lambda: torch.FloatStorage("a"),
    lambda: torch.FloatStorage(1, 2),
    lambda: torch.FloatStorage([1])[5],
    lambda: torch.FloatStorage([1, 2])[0:1],
    lambda: torch.IntStorage(2).copy_(torch.FloatStorage(3)),
    lambda: torch.FloatStorage(2, device="cpu"),
    lambda: torch.empty(2, device="meta").storage()[0],
):
    try:
        print(attempt())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[-1])

both = copy.deepcopy([x, x.storage()])
both[0].add_(1)
print(both[1][0] == both[0][0, 0].item())
file = io.BytesIO()
torch.save({"s": x.storage(), "x": x}, file)
file.seek(0)
loaded = torch.load(file, weights_only=False)
loaded["s"][0] = 5.0
print(loaded["x"][0, 0])

path = os.path.join(tempfile.mkdtemp(), "numbers")
mapped = torch.from_file(path, shared=True, size=4, dtype=torch.int32)
mapped.copy_(torch.arange(4))
print(torch.from_file(path, size=3, dtype=torch.int32), os.path.getsize(path))
