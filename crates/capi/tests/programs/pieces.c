/* Reads 10,000 pieces of 64 bytes, 1,000 bytes apart, in one call: pieces URL. */
#include <hither.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 10000, LENGTH = 64, STEP = 1000 };

int main(int argc, char **argv)
{
    static unsigned char bytes[PIECES][LENGTH];
    static hither_piece pieces[PIECES];
    const char *options[] = {"store", "", "max_connections", "1", NULL};
    hither_error *error = NULL;
    hither_client *client = argc == 2 ? hither_client_new(options, &error) : NULL;
    hither_file *file = hither_open(client, argv[1], NULL);
    for (size_t at = 0; at < PIECES; at++)
        pieces[at] = (hither_piece){at * STEP, LENGTH, bytes[at]};
    if (hither_preadv(file, pieces, PIECES, &error) != PIECES * LENGTH) {
        fprintf(stderr, "%s\n", hither_error_message(error));
        return EXIT_FAILURE;
    }
    uint64_t sum = 0;
    for (size_t at = 0; at < PIECES; at++)
        for (size_t next = 0; next < LENGTH; next++)
            sum += bytes[at][next];
    printf("%llu\n", (unsigned long long)sum);
    hither_close(file);
    hither_client_free(client);
    return EXIT_SUCCESS;
}
