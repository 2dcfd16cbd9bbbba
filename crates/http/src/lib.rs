//! HTTP codecs: range sets, Content-Range, multipart/byteranges, answers; sans-I/O.
