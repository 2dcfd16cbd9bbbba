"""Reads through the C library by ctypes: read.py LIBRARY URL. Prints bytes 1000 to 1003."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.hither_client_new.restype = library.hither_open.restype = ctypes.c_void_p
library.hither_error_message.restype = ctypes.c_char_p
library.hither_pread.restype = ctypes.c_int64
error = ctypes.c_void_p()
options = (ctypes.c_char_p * 3)(b"store", b"", None)
client = ctypes.c_void_p(library.hither_client_new(options, ctypes.byref(error)))
file = ctypes.c_void_p(library.hither_open(client, sys.argv[2].encode(), ctypes.byref(error)))
target = ctypes.create_string_buffer(4)
count = library.hither_pread(file, target, ctypes.c_size_t(4), ctypes.c_uint64(1000), ctypes.byref(error))
print(count, list(target.raw), library.hither_error_message(error).decode())
library.hither_close(file)
library.hither_client_free(client)
