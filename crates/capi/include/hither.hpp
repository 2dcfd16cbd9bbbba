/* libhither for C++17: objects that free what they own, exceptions, and futures, over hither.h.
 *
 * Objects can be moved, not copied. All members that are const may be called from several threads at
 * once. Failures throw hither::Error. docs/guides/c.md has an example.
 */
#ifndef HITHER_HPP
#define HITHER_HPP

#include "hither.h"

#include <cerrno>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hither {

/* A failure: kind, message, advice on retries. */
class Error : public std::runtime_error {
public:
    /* Takes over an error of the C library. */
    explicit Error(hither_error *error)
        : std::runtime_error(hither_error_message(error)), kind_(hither_error_kind(error)),
          retry_(hither_error_retry(error)), retry_after_(hither_error_retry_after(error))
    {
        hither_error_free(error);
    }

    hither_kind kind() const noexcept { return kind_; }
    hither_retry retry() const noexcept { return retry_; }
    /* Seconds to wait before a retry. */
    double retry_after() const noexcept { return retry_after_; }

private:
    hither_kind kind_;
    hither_retry retry_;
    double retry_after_;
};

/* Names and values of options, as in {{"max_connections", "8"}}. */
class Options {
public:
    Options() = default;
    Options(std::initializer_list<std::pair<std::string, std::string>> options) : options_(options) {}

    void set(std::string name, std::string value)
    {
        options_.emplace_back(std::move(name), std::move(value));
    }

    /* Returns the list that the C library takes. It is valid as long as the object is unchanged. */
    std::vector<const char *> list() const
    {
        std::vector<const char *> texts;
        for (const auto &[name, value] : options_) {
            texts.push_back(name.c_str());
            texts.push_back(value.c_str());
        }
        texts.push_back(nullptr);
        return texts;
    }

private:
    std::vector<std::pair<std::string, std::string>> options_;
};

/* A range of a file. */
struct Range {
    uint64_t offset;
    size_t length;
};

namespace detail {

/* Calls a function of the C library with a place for its error, and throws that. */
template <typename Call> auto checked(Call call)
{
    hither_error *error = nullptr;
    auto result = call(&error);
    if (error)
        throw Error(error);
    return result;
}

template <auto Free> struct Freed {
    template <typename T> void operator()(T *handle) const noexcept { Free(handle); }
};

template <typename T, auto Free> using Handle = std::unique_ptr<T, Freed<Free>>;

using Text = Handle<char, hither_string_free>;

inline std::vector<hither_piece> pieces(const std::vector<Range> &ranges)
{
    std::vector<hither_piece> pieces;
    pieces.reserve(ranges.size());
    for (const Range &range : ranges)
        pieces.push_back({range.offset, range.length, nullptr});
    return pieces;
}

/* Gives each piece memory in one block, in their order. */
inline std::vector<char> buffers(std::vector<hither_piece> &pieces)
{
    size_t total = 0;
    for (const hither_piece &piece : pieces)
        total += piece.length;
    std::vector<char> bytes(total);
    char *next = bytes.data();
    for (hither_piece &piece : pieces) {
        piece.buffer = next;
        next += piece.length;
    }
    return bytes;
}

} // namespace detail

/* Kind, size and version of a file or directory. */
struct Entry {
    std::string url;
    std::string name;
    hither_file_kind kind;
    /* HITHER_SIZE_UNKNOWN if unknown. */
    uint64_t size;
    /* Seconds since 1970 UTC, -1 if unknown. */
    double modified;
    /* Empty if unknown. */
    std::string validator;

    explicit Entry(std::shared_ptr<const hither_entry> entry)
        : url(hither_entry_url(entry.get())), name(hither_entry_name(entry.get())),
          kind(hither_entry_kind(entry.get())), size(hither_entry_size(entry.get())),
          modified(hither_entry_modified(entry.get())),
          validator(hither_entry_validator(entry.get()) ? hither_entry_validator(entry.get()) : ""),
          handle_(std::move(entry))
    {
    }

    const hither_entry *get() const noexcept { return handle_.get(); }

private:
    std::shared_ptr<const hither_entry> handle_;
};

/* Announced ranges; the announcement outlives the object unless it is cancelled. */
class Hint {
public:
    explicit Hint(hither_hint *hint) : handle_(hint) {}

    void cancel() const
    {
        detail::checked([&](auto error) { return hither_hint_cancel(handle_.get(), error); });
    }

private:
    detail::Handle<hither_hint, hither_hint_free> handle_;
};

/* An open file. */
class File {
public:
    explicit File(hither_file *file) : handle_(file) {}

    /* Opens the file once more, with other options, in the version that is read. */
    File again(const Options &options = {}) const
    {
        return File(detail::checked([&](auto error) {
            return hither_open_again(handle_.get(), options.list().data(), error);
        }));
    }

    uint64_t size() const
    {
        return static_cast<uint64_t>(
            detail::checked([&](auto error) { return hither_size(handle_.get(), error); }));
    }

    /* Reads into memory of the caller, and returns the number of bytes, fewer at the end. */
    size_t pread(void *target, size_t length, uint64_t offset) const
    {
        return static_cast<size_t>(detail::checked([&](auto error) {
            return hither_pread(handle_.get(), target, length, offset, error);
        }));
    }

    /* Reads pieces into memory of the caller, all in one call. */
    size_t preadv(const std::vector<hither_piece> &pieces) const
    {
        return static_cast<size_t>(detail::checked([&](auto error) {
            return hither_preadv(handle_.get(), pieces.data(), pieces.size(), error);
        }));
    }

    /* Returns the bytes of all ranges, one after the other. */
    std::vector<char> read(const std::vector<Range> &ranges) const
    {
        std::vector<hither_piece> pieces = detail::pieces(ranges);
        std::vector<char> bytes = detail::buffers(pieces);
        preadv(pieces);
        return bytes;
    }

    /* Announces ranges that will be read within this time. */
    Hint hint(const std::vector<Range> &ranges, double within_seconds) const
    {
        const std::vector<hither_piece> pieces = detail::pieces(ranges);
        hither_hint *hint = nullptr;
        detail::checked([&](auto error) {
            return hither_hint_new(
                handle_.get(), pieces.data(), pieces.size(), within_seconds, &hint, error);
        });
        return Hint(hint);
    }

    const hither_file *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<hither_file, hither_close> handle_;
};

/* Connections, cache and credentials that files share. */
class Client {
public:
    explicit Client(const Options &options = {})
        : handle_(detail::checked([&](auto error) {
              return hither_client_new(options.list().data(), error);
          }))
    {
    }

    File open(const std::string &url, const Options &options = {}) const
    {
        return File(detail::checked([&](auto error) {
            return hither_open_with(get(), url.c_str(), options.list().data(), error);
        }));
    }

    Entry stat(const std::string &url) const
    {
        hither_entry *const entry =
            detail::checked([&](auto error) { return hither_stat(get(), url.c_str(), error); });
        return Entry(std::shared_ptr<hither_entry>(entry, hither_entry_free));
    }

    std::vector<Entry> list(const std::string &url) const
    {
        const std::shared_ptr<hither_list> list(
            detail::checked([&](auto error) { return hither_list_new(get(), url.c_str(), error); }),
            hither_list_free);
        std::vector<Entry> entries;
        while (const hither_entry *entry = hither_list_next(list.get()))
            entries.emplace_back(std::shared_ptr<const hither_entry>(list, entry));
        return entries;
    }

    void put(const std::string &url, const void *data, size_t length, bool overwrite = false) const
    {
        detail::checked([&](auto error) {
            return hither_put(get(), url.c_str(), data, length, overwrite, error);
        });
    }

    /* Replaces only the version that `expected` describes; if it is null, nothing. */
    void put_if(const std::string &url, const void *data, size_t length, const Entry *expected) const
    {
        detail::checked([&](auto error) {
            const hither_entry *const entry = expected ? expected->get() : nullptr;
            return hither_put_if(get(), url.c_str(), data, length, entry, error);
        });
    }

    void put_file_if(const std::string &url, const std::string &path, const Entry *expected) const
    {
        detail::checked([&](auto error) {
            const hither_entry *const entry = expected ? expected->get() : nullptr;
            return hither_put_file_if(get(), url.c_str(), path.c_str(), entry, error);
        });
    }

    void put_file(const std::string &url, const std::string &path, bool overwrite = false) const
    {
        detail::checked([&](auto error) {
            return hither_put_file(get(), url.c_str(), path.c_str(), overwrite, error);
        });
    }

    void get_file(const std::string &url, const std::string &path, bool overwrite = false) const
    {
        detail::checked([&](auto error) {
            return hither_get_file(get(), url.c_str(), path.c_str(), overwrite, error);
        });
    }

    /* Copies a file or directory. `progress` is called ten times a second; the copy goes on if it
     * returns true. An exception that it throws cancels the copy and goes on to the caller. */
    void copy(const std::string &source, const std::string &destination,
              const Options &options = {},
              const std::function<bool(const hither_progress &)> &progress = {}) const
    {
        Watcher watcher{progress, nullptr};
        try {
            detail::checked([&](auto error) {
                return hither_copy(get(), source.c_str(), destination.c_str(),
                                   options.list().data(), progress ? watch : nullptr,
                                   &watcher, error);
            });
        } catch (const Error &) {
            if (!watcher.thrown)
                throw;
        }
        if (watcher.thrown)
            std::rethrow_exception(watcher.thrown);
    }

    void mkdir(const std::string &url) const
    {
        detail::checked([&](auto error) { return hither_mkdir(get(), url.c_str(), error); });
    }

    void remove(const std::string &url, bool recursive = false) const
    {
        detail::checked(
            [&](auto error) { return hither_remove(get(), url.c_str(), recursive, error); });
    }

    void rename(const std::string &from, const std::string &to, bool overwrite = false) const
    {
        detail::checked([&](auto error) {
            return hither_rename(get(), from.c_str(), to.c_str(), overwrite, error);
        });
    }

    /* Returns "ALGORITHM:HEX". */
    std::string checksum(const std::string &url, const std::string &algorithm) const
    {
        const detail::Text text(detail::checked([&](auto error) {
            return hither_checksum(get(), url.c_str(), algorithm.c_str(), error);
        }));
        return text.get();
    }

    /* Returns requests, round trips and bytes as JSON. */
    std::string report() const
    {
        const detail::Text text(
            detail::checked([&](auto error) { return hither_client_report(get(), error); }));
        return text.get();
    }

    const hither_client *get() const noexcept { return handle_.get(); }

private:
    struct Watcher {
        const std::function<bool(const hither_progress &)> &progress;
        std::exception_ptr thrown;
    };

    /* Exceptions must not pass through the C library. */
    static int watch(const hither_progress *progress, void *user_data) noexcept
    {
        auto &watcher = *static_cast<Watcher *>(user_data);
        try {
            return watcher.progress(*progress) ? 0 : 1;
        } catch (...) {
            watcher.thrown = std::current_exception();
            return 1;
        }
    }

    detail::Handle<hither_client, hither_client_free> handle_;
};

/* Reads in the background: each returns a future at once. One thread takes the completions of all of
 * them. The destructor cancels what is in flight; its futures then throw std::future_error. */
class Reader {
public:
    explicit Reader(const Client &client)
        : queue_(detail::checked(
              [&](auto error) { return hither_queue_new(client.get(), error); })),
          stop_(eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); })
    {
    }

    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    ~Reader()
    {
        eventfd_write(stop_, 1);
        thread_.join();
        close(stop_);
    }

    /* Reads the bytes of all ranges, one after the other. */
    std::future<std::vector<char>> read(const File &file, const std::vector<Range> &ranges)
    {
        auto read = std::make_unique<Read>();
        read->pieces = detail::pieces(ranges);
        read->bytes = detail::buffers(read->pieces);
        std::future<std::vector<char>> future = read->promise.get_future();
        const std::lock_guard<std::mutex> lock(mutex_);
        Read *const key = read.get();
        reads_.emplace(key, std::move(read));
        try {
            detail::checked([&](auto error) {
                return hither_submit_preadv(
                    queue_.get(), file.get(), key->pieces.data(), key->pieces.size(), key, error);
            });
        } catch (...) {
            reads_.erase(key);
            throw;
        }
        return future;
    }

private:
    struct Read {
        std::vector<hither_piece> pieces;
        std::vector<char> bytes;
        std::promise<std::vector<char>> promise;
    };

    void run()
    {
        pollfd ready[] = {{hither_queue_descriptor(queue_.get()), POLLIN, 0}, {stop_, POLLIN, 0}};
        while (poll(ready, 2, -1) >= 0 || errno == EINTR) {
            if (ready[1].revents)
                return;
            hither_completion done[64];
            const int64_t count = hither_queue_poll(queue_.get(), done, 64, 0, nullptr);
            for (int64_t at = 0; at < count; at++)
                settle(done[at]);
        }
    }

    void settle(const hither_completion &done)
    {
        std::unique_ptr<Read> read;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto found = reads_.find(static_cast<Read *>(done.user_data));
            read = std::move(found->second);
            reads_.erase(found);
        }
        if (done.error)
            read->promise.set_exception(std::make_exception_ptr(Error(done.error)));
        else
            read->promise.set_value(std::move(read->bytes));
    }

    std::mutex mutex_;
    /* Destroyed after the queue, which fills their buffers. */
    std::unordered_map<Read *, std::unique_ptr<Read>> reads_;
    detail::Handle<hither_queue, hither_queue_free> queue_;
    int stop_;
    std::thread thread_;
};

} // namespace hither

#endif
