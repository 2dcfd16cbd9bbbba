/* libhither: remote scientific data, read as if it were here. docs/guides/c.md is the guide.
 *
 * Generated from crates/capi by cbindgen; do not edit.
 *
 * Errors. A function that may fail has `hither_error **error` as its last argument. It may be NULL.
 * Otherwise NULL is stored there on success, and on failure an error, which the program frees.
 * Texts are UTF-8. NULL handles and texts, and wrong values, are errors of HITHER_KIND_INVALID.
 *
 * Threads. All functions may be called from several threads at once with the same handles, except
 * that a handle is freed once, when no call with it is under way. No function may be called from a
 * signal handler.
 *
 * Signals. The first client installs a handler for SIGPIPE, so that a server that closes a connection
 * does not end the program. A handler that the program has installed before is called as well.
 *
 * Fork. Handles belong to the process that made them. In a child process functions fail that are
 * called with them, and functions that free them do nothing: make a client after the fork.
 *
 * ABI. Symbols have the version hither_1. Handles are opaque; structures and values do not change,
 * but values may be added to enumerations.
 */

#ifndef HITHER_H
#define HITHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The size of a file whose server does not tell it.
#define HITHER_SIZE_UNKNOWN 18446744073709551615ull

// Kind of a directory entry.
typedef enum {
  // Something else, or unknown.
  HITHER_FILE_KIND_OTHER = 0,
  // A file.
  HITHER_FILE_KIND_FILE = 1,
  // A directory.
  HITHER_FILE_KIND_DIRECTORY = 2,
  // A symbolic link.
  HITHER_FILE_KIND_LINK = 3,
} hither_file_kind;

// Kind of failure, by what the caller can do about it.
typedef enum {
  // No failure.
  HITHER_KIND_NONE = 0,
  // A malformed URL, option or range, or a NULL where none is allowed.
  HITHER_KIND_INVALID = 1,
  // The file or directory does not exist.
  HITHER_KIND_NOT_FOUND = 2,
  // The server wants credentials (401).
  HITHER_KIND_UNAUTHENTICATED = 3,
  // The credentials do not suffice (403).
  HITHER_KIND_PERMISSION_DENIED = 4,
  // There is something of that name already.
  HITHER_KIND_ALREADY_EXISTS = 5,
  // The server or the disk has no room left (507).
  HITHER_KIND_NO_SPACE = 6,
  // The file is no longer the one that was opened.
  HITHER_KIND_CHANGED = 7,
  // Bytes are not as they have to be: a wrong checksum, or a range beyond the end of the file.
  HITHER_KIND_CORRUPT = 8,
  // This server or this version of the library cannot do that.
  HITHER_KIND_UNSUPPORTED = 9,
  // A time limit ran out: connect, first byte, or no progress.
  HITHER_KIND_TIMEOUT = 10,
  // The server cannot be reached, broke off, or answered 5xx.
  HITHER_KIND_UNAVAILABLE = 11,
  // The server answered in a way that its protocol does not allow.
  HITHER_KIND_PROTOCOL = 12,
  // The request was too large for the server.
  HITHER_KIND_TOO_LARGE = 13,
  // The caller cancelled.
  HITHER_KIND_CANCELLED = 14,
  // A local file or the local machine failed.
  HITHER_KIND_LOCAL = 15,
  // A defect of the library.
  HITHER_KIND_INTERNAL = 16,
} hither_kind;

// Advice on retries. The library has retried what it may before it returns an error.
typedef enum {
  // A retry will fail, too.
  HITHER_RETRY_NEVER = 0,
  // The same server may answer after a while.
  HITHER_RETRY_SAME_SERVER = 1,
  // The server has to make the file ready first, as from tape.
  HITHER_RETRY_LATER = 2,
  // Only another server may answer.
  HITHER_RETRY_OTHER_SERVER = 3,
  // The change may have been made: look before it is requested again.
  HITHER_RETRY_LOOK_FIRST = 4,
} hither_retry;

// Connections, cache, credentials and threads that files share. Clients share nothing.
typedef struct hither_client hither_client;

// Name, kind, size and version of a file or directory.
typedef struct hither_entry hither_entry;

// An error. Free it with hither_error_free.
typedef struct hither_error hither_error;

// An open file. It keeps its client.
typedef struct hither_file hither_file;

// A hint that can be cancelled. It keeps its file.
typedef struct hither_hint hither_hint;

// The entries of a directory.
typedef struct hither_list hither_list;

// Reads that are in flight, and those that have completed. It keeps its client.
typedef struct hither_queue hither_queue;

// Progress of a copy. Files and bytes found grow until all directories are listed.
typedef struct {
  // Files found so far.
  uint64_t files_found;
  // Files that have their final name, or were skipped, or failed.
  uint64_t files_done;
  // Bytes of the files found.
  uint64_t bytes_found;
  // Bytes of these that need not be moved any more.
  uint64_t bytes_done;
  // Bytes that arrived.
  uint64_t bytes_arrived;
} hither_progress;

// A function that is called with the progress of a copy and the program's own pointer, on the
// thread that called hither_copy, ten times a second and at the end. The copy goes on if it
// returns 0, and is cancelled otherwise.
typedef int (*hither_progress_function)(const hither_progress *progress,
                                        void *user_data);

// A range of a file and the memory for its bytes.
typedef struct {
  // Offset in the file, in bytes.
  uint64_t offset;
  // Number of bytes.
  size_t length;
  // Memory for `length` bytes. Hints do not use it.
  void *buffer;
} hither_piece;

// A read that has completed.
typedef struct {
  // The pointer that the program submitted with the read.
  void *user_data;
  // Number of bytes, -1 after an error.
  int64_t result;
  // The error, which the program frees; NULL without one.
  hither_error *error;
} hither_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.1.0".
const char *hither_version(void);

// Creates a client. `options` lists names and values in turn and ends with NULL; NULL stands for
// no options. What they do not say comes from the environment and the configuration file, as for
// the command. docs/guides/c.md lists the names. Returns NULL after an error.
hither_client *hither_client_new(const char *const *options,
                                 hither_error **error);

// Returns the report of all reads of a client as JSON: requests, round trips, connections, bytes,
// hits. Free it with hither_string_free. Returns NULL after an error.
char *hither_client_report(const hither_client *client,
                           hither_error **error);

// Frees a client. It ends with the last file and queue of it that is freed, and then waits a few
// seconds at most for data that is being written to disk. NULL does nothing.
void hither_client_free(hither_client *client);

// Copies a file or directory, both named by URL or local path. `options` lists names and values in
// turn and ends with NULL; NULL stands for no options; docs/guides/c.md lists the names. With the
// option third_party, the servers copy between each other. `progress` may be NULL. Returns 0, -1
// after an error.
int hither_copy(const hither_client *client,
                const char *source,
                const char *destination,
                const char *const *options,
                hither_progress_function progress,
                void *user_data,
                hither_error **error);

// Asks for kind, size and version of a file or directory. Free the entry with hither_entry_free.
// Returns NULL after an error.
hither_entry *hither_stat(const hither_client *client,
                          const char *url,
                          hither_error **error);

// Frees an entry of hither_stat. NULL does nothing.
void hither_entry_free(hither_entry *entry);

// Lists a directory. Free the list with hither_list_free. Returns NULL after an error.
hither_list *hither_list_new(const hither_client *client,
                             const char *url,
                             hither_error **error);

// Returns the next entry, which belongs to the list; NULL after the last one. Threads that share a
// list get different entries.
const hither_entry *hither_list_next(const hither_list *list);

// Frees a list with its entries. NULL does nothing.
void hither_list_free(hither_list *list);

// Returns the URL or local path of an entry, without secrets, valid as long as the entry. NULL for
// NULL.
const char *hither_entry_url(const hither_entry *entry);

// Returns the last part of the path of an entry, valid as long as the entry. NULL for NULL.
const char *hither_entry_name(const hither_entry *entry);

// Returns the kind of an entry.
hither_file_kind hither_entry_kind(const hither_entry *entry);

// Returns the size of an entry in bytes; 0 for anything but a file, HITHER_SIZE_UNKNOWN if the
// server does not tell it.
uint64_t hither_entry_size(const hither_entry *entry);

// Returns the time of the last change in seconds since 1970 UTC, -1 if the server does not say.
double hither_entry_modified(const hither_entry *entry);

// Returns the version of a file, an entity tag or another such text, valid as long as the entry;
// NULL if the server does not say.
const char *hither_entry_validator(const hither_entry *entry);

// Returns the kind of an error; HITHER_KIND_NONE for NULL.
hither_kind hither_error_kind(const hither_error *error);

// Returns the message of an error with its causes: UTF-8, without secrets, valid until the error
// is freed. The empty text for NULL.
const char *hither_error_message(const hither_error *error);

// Returns advice on retries; HITHER_RETRY_NEVER for NULL.
hither_retry hither_error_retry(const hither_error *error);

// Returns the seconds to wait before a retry; 0 if the server did not say.
double hither_error_retry_after(const hither_error *error);

// Frees an error. NULL does nothing.
void hither_error_free(hither_error *error);

// Opens a file by URL (http, https, dav, davs, root, roots, s3) or local path. Sends no request,
// except for a Metalink document: a missing remote file is reported by its first use. Returns NULL
// after an error.
hither_file *hither_open(const hither_client *client,
                         const char *url,
                         hither_error **error);

// Opens a file as hither_open does. `options` lists names and values in turn and ends with NULL;
// NULL stands for no options; docs/guides/c.md lists the names. Returns NULL after an error.
hither_file *hither_open_with(const hither_client *client,
                              const char *url,
                              const char *const *options,
                              hither_error **error);

// Opens the file of a handle once more, with other options, in the version that the handle reads:
// as soon as the file is seen to have changed, reads of both fail with HITHER_KIND_CHANGED, where
// hither_open would read the new version. They share their bytes in memory; each is closed. Sends
// a request only if nothing was read yet. `options` as for hither_open_with. Returns NULL after an
// error.
hither_file *hither_open_again(const hither_file *file,
                               const char *const *options,
                               hither_error **error);

// Closes a file and cancels its prefetches. NULL does nothing.
void hither_close(hither_file *file);

// Returns the size of a file in bytes, -1 after an error. Takes no request after the first read.
int64_t hither_size(const hither_file *file,
                    hither_error **error);

// Reads from `offset` until `length` bytes are read or the file ends. Returns the number of bytes,
// -1 after an error.
int64_t hither_pread(const hither_file *file,
                     void *target,
                     size_t length,
                     uint64_t offset,
                     hither_error **error);

// Reads many pieces at once, in as few requests and round trips as the server allows: thousands in
// one call are fast. They may overlap and be in any order. Returns the number of bytes, -1 after
// an error, also if a piece goes beyond the end of the file; no piece is filled then.
int64_t hither_preadv(const hither_file *file,
                      const hither_piece *pieces,
                      size_t count,
                      hither_error **error);

// Announces pieces that will be read, in this order, about `within_seconds` from now. They are
// fetched ahead of the reads, in few requests, as far as the cache has room. Their buffers are not
// used. Unless `hint` is NULL, stores a handle there, to be freed with hither_hint_free. Returns
// 0, -1 after an error. Does nothing for local files.
int hither_hint_new(const hither_file *file,
                    const hither_piece *pieces,
                    size_t count,
                    double within_seconds,
                    hither_hint **hint,
                    hither_error **error);

// Takes a hint back: what was not requested yet will not be requested. Returns 0, -1 after an
// error.
int hither_hint_cancel(const hither_hint *hint,
                       hither_error **error);

// Frees the handle of a hint, which remains given. NULL does nothing.
void hither_hint_free(hither_hint *hint);

// Frees a text that the library returned. NULL does nothing.
void hither_string_free(char *text);

// Creates a queue of reads of the files of a client. Returns NULL after an error.
hither_queue *hither_queue_new(const hither_client *client,
                               hither_error **error);

// Returns a descriptor for poll, epoll or select that is readable while there are completions. It
// belongs to the queue: do not read or close it. Returns -1 for NULL and after fork.
int hither_queue_descriptor(const hither_queue *queue);

// Submits a read of `length` bytes at `offset`, which does not wait. The file may be closed at
// once. The buffer is filled by hither_queue_poll and has to exist until then. Returns 0, -1 after
// an error, which leaves no completion.
int hither_submit_pread(const hither_queue *queue,
                        const hither_file *file,
                        void *target,
                        size_t length,
                        uint64_t offset,
                        void *user_data,
                        hither_error **error);

// Submits a read of many pieces at once, as hither_preadv does. The list of pieces is copied;
// their buffers are filled by hither_queue_poll and have to exist until then. Returns 0, -1 after
// an error, which leaves no completion.
int hither_submit_preadv(const hither_queue *queue,
                         const hither_file *file,
                         const hither_piece *pieces,
                         size_t count,
                         void *user_data,
                         hither_error **error);

// Takes up to `max` completions, after it has copied their bytes into the program's buffers. Waits
// until there is one, nothing is in flight, or `timeout_ms` milliseconds are over; 0 does not
// wait, -1 waits without limit. Returns their number, -1 after an error.
int64_t hither_queue_poll(const hither_queue *queue,
                          hither_completion *completions,
                          size_t max,
                          int timeout_ms,
                          hither_error **error);

// Frees a queue. Reads in flight are cancelled, and no buffer is written any more. NULL does
// nothing.
void hither_queue_free(hither_queue *queue);

// Writes `length` bytes to the file at `url`, which appears when it is complete. If there is a
// file, replaces it if `overwrite` is true, else fails. Returns 0, -1 after an error.
int hither_put(const hither_client *client,
               const char *url,
               const void *data,
               size_t length,
               bool overwrite,
               hither_error **error);

// Writes as hither_put does if the file at `url` is still the one that `expected` describes, an
// entry of hither_stat; if `expected` is NULL, if there is none. Else nothing is written, and the
// error is of HITHER_KIND_CHANGED or HITHER_KIND_ALREADY_EXISTS. The server compares where it can
// (If-Match, If-None-Match), else the library does so just before. Returns 0, -1 after an error.
int hither_put_if(const hither_client *client,
                  const char *url,
                  const void *data,
                  size_t length,
                  const hither_entry *expected,
                  hither_error **error);

// Copies the local file `path` to exactly `url`, in parallel pieces, and compares checksums. If
// there is a file, replaces it if `overwrite` is true, else fails. Returns 0, -1 after an error.
int hither_put_file(const hither_client *client,
                    const char *url,
                    const char *path,
                    bool overwrite,
                    hither_error **error);

// Copies as hither_put_file does, under the condition of hither_put_if. Returns 0, -1 after an
// error.
int hither_put_file_if(const hither_client *client,
                       const char *url,
                       const char *path,
                       const hither_entry *expected,
                       hither_error **error);

// Copies the file at `url` to exactly the local file `path`, in parallel pieces, and compares
// checksums. If there is a file, replaces it if `overwrite` is true, else fails. Returns 0, -1
// after an error.
int hither_get_file(const hither_client *client,
                    const char *url,
                    const char *path,
                    bool overwrite,
                    hither_error **error);

// Makes a directory. Returns 0, -1 after an error.
int hither_mkdir(const hither_client *client,
                 const char *url,
                 hither_error **error);

// Removes a file or directory; a directory that is not empty only if `recursive` is true. Returns
// 0, -1 after an error.
int hither_remove(const hither_client *client,
                  const char *url,
                  bool recursive,
                  hither_error **error);

// Renames a file or directory on its server. If there is something of the new name, replaces it if
// `overwrite` is true, else fails. Returns 0, -1 after an error.
int hither_rename(const hither_client *client,
                  const char *from,
                  const char *to,
                  bool overwrite,
                  hither_error **error);

// Returns the checksum of a file as "ALGORITHM:HEX": the server's, else computed from the bytes.
// `algorithm` is adler32, crc32c, md5, sha256 or sha512. Free the text with hither_string_free.
// Returns NULL after an error.
char *hither_checksum(const hither_client *client,
                      const char *url,
                      const char *algorithm,
                      hither_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HITHER_H */
