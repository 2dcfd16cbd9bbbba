/* Reads a file in pieces and by queue, and prints what that took: read URL. */
#include <hither.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 1000, LENGTH = 100, STEP = 1000 };

static int fail(const char *what, hither_error *error)
{
    fprintf(stderr, "%s: %s (kind %d)\n", what, hither_error_message(error), hither_error_kind(error));
    hither_error_free(error);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: read URL\n");
        return EXIT_FAILURE;
    }
    hither_error *error = NULL;
    const char *options[] = {"max_connections", "8", "store", "", NULL};
    hither_client *client = hither_client_new(options, &error);
    if (!client)
        return fail("client", error);
    hither_file *file = hither_open(client, argv[1], &error);
    if (!file)
        return fail("open", error);
    int64_t size = hither_size(file, &error);
    if (size < 0)
        return fail("size", error);
    printf("%lld bytes\n", (long long)size);

    /* Many pieces in one call: one round trip. */
    static char bytes[PIECES][LENGTH];
    static hither_piece pieces[PIECES];
    for (size_t at = 0; at < PIECES; at++)
        pieces[at] = (hither_piece){at * STEP, LENGTH, bytes[at]};
    int64_t count = hither_preadv(file, pieces, PIECES, &error);
    if (count < 0)
        return fail("preadv", error);
    printf("%lld bytes in %d pieces\n", (long long)count, PIECES);

    /* The same without waiting: the descriptor is readable when there is a completion. */
    char first[LENGTH];
    hither_queue *queue = hither_queue_new(client, &error);
    if (!queue || hither_submit_pread(queue, file, first, LENGTH, 0, first, &error))
        return fail("submit", error);
    struct pollfd ready = {.fd = hither_queue_descriptor(queue), .events = POLLIN};
    hither_completion done;
    if (poll(&ready, 1, -1) != 1 || hither_queue_poll(queue, &done, 1, 0, &error) != 1)
        return fail("poll", error);
    if (done.error)
        return fail("pread", done.error);
    printf("%s\n", memcmp(done.user_data, bytes[0], LENGTH) ? "different" : "equal");

    char *report = hither_client_report(client, &error);
    printf("%s\n", report);
    hither_string_free(report);
    hither_queue_free(queue);
    hither_close(file);
    hither_client_free(client);
    return EXIT_SUCCESS;
}
