// Many ranges of one file in one call of hither's C library (hither_preadv).
//
//   hither_ranges URL RANGES OUTPUT STORE    RANGES: a line for each range, its offset and length
//
// Timed from making the client to the last byte, as read_ranges is; prints one JSON object.
#include <hither.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <vector>

int main(int count, char **words)
{
   if (count != 5) {
      std::cerr << "usage: hither_ranges URL RANGES OUTPUT STORE\n";
      return 2;
   }
   std::vector<hither_piece> wanted;
   std::size_t total = 0;
   std::ifstream ranges(words[2]);
   for (unsigned long long first, length; ranges >> first >> length; total += length)
      wanted.push_back({first, static_cast<std::size_t>(length), nullptr});
   std::vector<char> bytes(total);
   char *place = bytes.data();
   for (auto &range : wanted) {
      range.buffer = place;
      place += range.length;
   }

   const auto started = std::chrono::steady_clock::now();
   const char *options[] = {"store", words[4], nullptr};
   hither_error *error = nullptr;
   hither_client *client = hither_client_new(options, &error);
   hither_file *file = client ? hither_open(client, words[1], &error) : nullptr;
   const auto found = file ? hither_preadv(file, wanted.data(), wanted.size(), &error) : -1;
   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
   if (found != static_cast<int64_t>(total)) {
      std::cerr << "hither: " << hither_error_message(error) << "\n";
      return 1;
   }
   hither_close(file);
   hither_client_free(client);
   std::ofstream(words[3], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(total));
   std::printf("{\"seconds\": %.6f, \"bytes_used\": %zu}\n", took.count(), total);
   return 0;
}
