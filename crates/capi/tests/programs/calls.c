/* Calls of the C library, each with right and wrong arguments: calls URL FOLDER. The file at URL has the byte
 * (7 * offset + offset / 256) % 251 at each offset; there is no file at URL + "/missing". */
#include <hither.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, hither_error_message(error)); \
            exit(EXIT_FAILURE);                                                               \
        }                                                                                     \
    } while (0)

/* An error of this kind was stored; it is freed. */
#define FAILED(expected)                              \
    do {                                              \
        CHECK(hither_error_kind(error) == expected);  \
        CHECK(hither_error_message(error)[0]);        \
        hither_error_free(error);                     \
        error = NULL;                                 \
    } while (0)

static hither_error *error;

static unsigned char expected(uint64_t offset)
{
    return (unsigned char)((7 * offset + offset / 256) % 251);
}

static bool equal(const void *bytes, uint64_t offset, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (((const unsigned char *)bytes)[at] != expected(offset + at))
            return false;
    return true;
}

static void clients(void)
{
    const char *unknown[] = {"max_conections", "8", NULL};
    CHECK(!hither_client_new(unknown, &error));
    CHECK(strstr(hither_error_message(error), "max_connections"));
    FAILED(HITHER_KIND_INVALID);
    const char *wrong[] = {"max_connections", "many", NULL};
    CHECK(!hither_client_new(wrong, &error));
    FAILED(HITHER_KIND_INVALID);
    const char *half[] = {"cache", NULL};
    CHECK(!hither_client_new(half, &error));
    FAILED(HITHER_KIND_INVALID);
    const char *no_utf8[] = {"token", "\xff", NULL};
    CHECK(!hither_client_new(no_utf8, &error));
    FAILED(HITHER_KIND_INVALID);
    const char *password[] = {"user", "me", NULL};
    CHECK(!hither_client_new(password, &error));
    FAILED(HITHER_KIND_INVALID);
    /* Without a place for the error. */
    CHECK(!hither_client_new(half, NULL));
}

static void nulls(const hither_client *client, const hither_file *file)
{
    char byte;
    CHECK(!hither_open(NULL, "/", &error));
    FAILED(HITHER_KIND_INVALID);
    CHECK(!hither_open(client, NULL, &error));
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_size(NULL, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_pread(file, NULL, 1, 0, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_pread(file, &byte, SIZE_MAX, 0, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_preadv(file, NULL, 3, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    const hither_piece no_memory = {0, 1, NULL};
    CHECK(hither_preadv(file, &no_memory, 1, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    const hither_piece too_long = {UINT64_MAX, 1, &byte};
    CHECK(hither_preadv(file, &too_long, 1, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_put(client, NULL, "", 0, true, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(!hither_open_again(NULL, NULL, &error));
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_queue_poll(NULL, NULL, 0, 0, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_queue_descriptor(NULL) == -1);
    CHECK(!hither_list_next(NULL) && !hither_entry_name(NULL));
    CHECK(hither_error_kind(NULL) == HITHER_KIND_NONE && !hither_error_message(NULL)[0]);
    hither_client_free(NULL);
    hither_close(NULL);
    hither_hint_free(NULL);
    hither_list_free(NULL);
    hither_entry_free(NULL);
    hither_queue_free(NULL);
    hither_error_free(NULL);
    hither_string_free(NULL);
}

static void reads(const hither_client *client, const hither_file *file, const char *url)
{
    char bytes[4][100];
    int64_t size = hither_size(file, &error);
    CHECK(size > 20000);
    CHECK(hither_pread(file, bytes[0], 100, 700, &error) == 100 && equal(bytes[0], 700, 100));
    CHECK(hither_pread(file, bytes[0], 100, (uint64_t)size - 10, &error) == 10);
    CHECK(hither_pread(file, bytes[0], 0, 0, &error) == 0 && hither_preadv(file, NULL, 0, &error) == 0);
    /* In any order, overlapping and empty. */
    const hither_piece pieces[] = {
        {5000, 100, bytes[0]}, {100, 50, bytes[1]}, {5050, 100, bytes[2]}, {0, 0, NULL}};
    CHECK(hither_hint_new(file, pieces, 4, 0.0, NULL, &error) == 0);
    CHECK(hither_preadv(file, pieces, 4, &error) == 250);
    for (int at = 0; at < 3; at++)
        CHECK(equal(pieces[at].buffer, pieces[at].offset, pieces[at].length));
    memset(bytes, 0, sizeof bytes);
    const hither_piece beyond[] = {{0, 100, bytes[0]}, {(uint64_t)size - 1, 2, bytes[1]}};
    CHECK(hither_preadv(file, beyond, 2, &error) == -1 && !bytes[0][1]);
    FAILED(HITHER_KIND_CORRUPT);
    hither_hint *hint = NULL;
    CHECK(hither_hint_new(file, pieces, 4, -1.0, &hint, &error) == -1 && !hint);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_hint_new(file, pieces, 4, 60.0, &hint, &error) == 0 && hint);
    CHECK(hither_hint_cancel(hint, &error) == 0);
    hither_hint_free(hint);

    char missing[200];
    snprintf(missing, sizeof missing, "%s/missing", url);
    hither_file *none = hither_open(client, missing, &error);
    CHECK(none && hither_pread(none, bytes[0], 1, 0, &error) == -1);
    CHECK(hither_error_retry(error) == HITHER_RETRY_NEVER && hither_error_retry_after(error) == 0.0);
    FAILED(HITHER_KIND_NOT_FOUND);
    hither_close(none);
    CHECK(!hither_open(client, "gopher://h/x", &error));
    FAILED(HITHER_KIND_UNSUPPORTED);

    const char *const options[] = {"tree_cache", "false", "open_ahead", "false", "tail", "1K", NULL};
    hither_file *with = hither_open_with(client, url, options, &error);
    CHECK(with && hither_size(with, &error) == size && !error);
    hither_file *again = hither_open_again(with, options, &error);
    CHECK(again && hither_pread(again, bytes[0], 100, 700, &error) == 100 && equal(bytes[0], 700, 100));
    hither_close(again);
    hither_close(with);
    const char *const unknown[] = {"tree_caches", "false", NULL};
    CHECK(!hither_open_with(client, url, unknown, &error) && strstr(hither_error_message(error), "tree_cache"));
    FAILED(HITHER_KIND_INVALID);
}

static void queues(const hither_client *client, const hither_file *file)
{
    enum { READS = 50 };
    static char bytes[READS][100];
    hither_completion done[8];
    hither_queue *queue = hither_queue_new(client, &error);
    CHECK(queue);
    CHECK(hither_queue_poll(queue, done, 8, -1, &error) == 0);
    for (size_t at = 0; at < READS; at++) {
        const hither_piece pieces[] = {{1000 * at, 40, bytes[at]}, {1000 * at + 40, 60, bytes[at] + 40}};
        int submitted = at % 2 ? hither_submit_preadv(queue, file, pieces, 2, bytes[at], &error)
                               : hither_submit_pread(queue, file, bytes[at], 100, 1000 * at, bytes[at], &error);
        CHECK(submitted == 0);
    }
    CHECK(hither_submit_pread(queue, file, NULL, 1, 0, NULL, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    struct pollfd ready = {.fd = hither_queue_descriptor(queue), .events = POLLIN};
    for (int taken = 0; taken < READS;) {
        CHECK(poll(&ready, 1, -1) == 1);
        int64_t count = hither_queue_poll(queue, done, 8, 0, &error);
        CHECK(count > 0);
        for (int64_t at = 0; at < count; at++) {
            size_t read = (size_t)((char(*)[100])done[at].user_data - bytes);
            CHECK(done[at].result == 100 && !done[at].error && equal(bytes[read], 1000 * read, 100));
        }
        taken += (int)count;
    }
    CHECK(poll(&ready, 1, 0) == 0);
    const hither_piece beyond = {UINT64_MAX - 10, 1, bytes[0]};
    CHECK(hither_submit_preadv(queue, file, &beyond, 1, NULL, &error) == 0);
    CHECK(hither_queue_poll(queue, done, 8, -1, &error) == 1 && done[0].result == -1);
    error = done[0].error;
    FAILED(HITHER_KIND_CORRUPT);
    /* Freed with reads in flight. */
    for (size_t at = 0; at < READS; at++)
        CHECK(hither_submit_pread(queue, file, bytes[at], 100, 3000 * at + 500, NULL, &error) == 0);
    hither_queue_free(queue);
}

static int figures[2];

static int watch(const hither_progress *progress, void *user_data)
{
    ((int *)user_data)[0]++;
    ((int *)user_data)[1] = (int)progress->files_done;
    return 0;
}

static void storage(const hither_client *client, const char *folder)
{
    char name[8][300];
    const char *names[] = {"", "/made", "/made/a", "/made/b", "/made/c", "/copy", "/made/d", "/none"};
    for (int at = 0; at < 8; at++)
        snprintf(name[at], sizeof name[at], "%s%s", folder, names[at]);
    CHECK(hither_mkdir(client, name[1], &error) == 0);
    CHECK(hither_put(client, name[2], "content", 7, false, &error) == 0);
    CHECK(hither_put(client, name[2], "content", 7, false, &error) == -1);
    FAILED(HITHER_KIND_ALREADY_EXISTS);
    CHECK(hither_put(client, name[2], "changed", 7, true, &error) == 0);
    CHECK(hither_put_file(client, name[3], name[2], false, &error) == 0);
    CHECK(hither_get_file(client, name[3], name[4], false, &error) == 0);
    CHECK(hither_rename(client, name[4], name[6], false, &error) == 0);
    char *checksum = hither_checksum(client, name[6], "adler32", &error);
    CHECK(checksum && strcmp(checksum, "adler32:0b2c02cb") == 0);
    hither_string_free(checksum);
    CHECK(!hither_checksum(client, name[6], "crc64", &error));
    FAILED(HITHER_KIND_INVALID);

    hither_entry *entry = hither_stat(client, name[6], &error);
    CHECK(entry && hither_entry_kind(entry) == HITHER_FILE_KIND_FILE && hither_entry_size(entry) == 7);
    CHECK(strcmp(hither_entry_name(entry), "d") == 0 && strcmp(hither_entry_url(entry), name[6]) == 0);
    CHECK(hither_entry_modified(entry) > 1e9);
    /* Only that version is replaced, and only a name that is free is taken. */
    CHECK(hither_put_if(client, name[6], "replaced", 8, entry, &error) == 0);
    CHECK(hither_put_if(client, name[6], "lost", 4, entry, &error) == -1);
    CHECK(strstr(hither_error_message(error), "has changed since it was read"));
    FAILED(HITHER_KIND_CHANGED);
    CHECK(hither_put_file_if(client, name[6], name[2], entry, &error) == -1);
    FAILED(HITHER_KIND_CHANGED);
    hither_entry_free(entry);
    CHECK(hither_put_file_if(client, name[6], name[2], NULL, &error) == -1);
    FAILED(HITHER_KIND_ALREADY_EXISTS);
    entry = hither_stat(client, name[6], &error);
    CHECK(entry && hither_entry_size(entry) == 8);
    CHECK(hither_put_file_if(client, name[6], name[2], entry, &error) == 0);
    hither_entry_free(entry);
    hither_list *list = hither_list_new(client, name[1], &error);
    CHECK(list);
    int listed = 0;
    for (const hither_entry *next; (next = hither_list_next(list));)
        listed += hither_entry_size(next) == 7;
    CHECK(listed == 3);
    hither_list_free(list);

    const char *recursive[] = {"recursive", "true", "checksum", "adler32", NULL};
    CHECK(hither_copy(client, name[1], name[5], recursive, watch, figures, &error) == 0);
    CHECK(figures[0] > 0 && figures[1] == 3);
    CHECK(hither_copy(client, name[7], name[5], NULL, NULL, NULL, &error) == -1);
    FAILED(HITHER_KIND_NOT_FOUND);
    const char *wrong[] = {"existing", "perhaps", NULL};
    CHECK(hither_copy(client, name[1], name[5], wrong, NULL, NULL, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
    CHECK(hither_remove(client, name[1], false, &error) == -1);
    hither_error_free(error);
    CHECK(hither_remove(client, name[1], true, &error) == 0);
    CHECK(hither_remove(client, name[5], true, &error) == 0);
    CHECK(hither_remove(client, "/", true, &error) == -1);
    FAILED(HITHER_KIND_INVALID);
}

static const hither_file *shared;

static void *thread(void *number)
{
    uint64_t from = 1000 * (uint64_t)(size_t)number;
    for (uint64_t at = from; at < from + 900; at += 90) {
        char bytes[90];
        hither_error *failure = NULL;
        if (hither_pread(shared, bytes, 90, at, &failure) != 90 || !equal(bytes, at, 90))
            return "different";
    }
    return NULL;
}

static void threads(const hither_file *file)
{
    pthread_t running[8];
    shared = file;
    for (size_t at = 0; at < 8; at++)
        CHECK(pthread_create(&running[at], NULL, thread, (void *)at) == 0);
    for (size_t at = 0; at < 8; at++) {
        void *failed;
        CHECK(pthread_join(running[at], &failed) == 0 && !failed);
    }
}

/* In a child, handles of the parent are errors, freeing them does nothing, and a new client works. */
static void forks(hither_client *client, hither_file *file, const char *url, const char **options)
{
    pid_t child = fork();
    if (child == 0) {
        char byte;
        CHECK(hither_pread(file, &byte, 1, 0, &error) == -1);
        FAILED(HITHER_KIND_INVALID);
        hither_close(file);
        hither_client_free(client);
        client = hither_client_new(options, &error);
        file = hither_open(client, url, &error);
        CHECK(hither_pread(file, &byte, 1, 3, &error) == 1 && equal(&byte, 3, 1));
        hither_close(file);
        hither_client_free(client);
        /* The end of success: an exit would have valgrind list what the parent's threads hold. */
        raise(SIGKILL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv)
{
    const char *options[] = {"store", "", "cache", "64M", "connect_timeout", "5", "header", "X-Site: T2",
                             "over_http", "false", NULL};
    CHECK(argc == 3 && hither_version()[0]);
    clients();
    hither_client *client = hither_client_new(options, &error);
    CHECK(client);
    hither_file *file = hither_open(client, argv[1], &error);
    CHECK(file);
    /* It would end the program. */
    CHECK(raise(SIGPIPE) == 0);
    nulls(client, file);
    reads(client, file, argv[1]);
    queues(client, file);
    storage(client, argv[2]);
    threads(file);
    forks(client, file, argv[1], options);
    char *report = hither_client_report(client, &error);
    CHECK(report && strstr(report, "\"round_trips\":"));
    hither_string_free(report);
    /* The file keeps the client. */
    hither_client_free(client);
    char byte;
    CHECK(hither_pread(file, &byte, 1, 9, &error) == 1 && equal(&byte, 9, 1));
    hither_close(file);
    puts("all calls are as expected");
    return EXIT_SUCCESS;
}
