// Many ranges of one file in one call of davix (preadVec), with davix's defaults.
//
//   davix_ranges URL RANGES OUTPUT [CA]    RANGES: a line for each range, its offset and length
//
// Timed from opening the URL to the last byte; prints one JSON object.
#include <davix.hpp>

#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <vector>

int main(int count, char **words)
{
   if (count < 4) {
      std::cerr << "usage: davix_ranges URL RANGES OUTPUT [CA]\n";
      return 2;
   }
   std::vector<Davix::DavIOVecInput> wanted;
   std::size_t total = 0;
   std::ifstream ranges(words[2]);
   for (unsigned long long first, length; ranges >> first >> length; total += length)
      wanted.push_back({nullptr, static_cast<dav_off_t>(first), length});
   std::vector<char> bytes(total);
   char *place = bytes.data();
   for (auto &range : wanted) {
      range.diov_buffer = place;
      place += range.diov_size;
   }
   std::vector<Davix::DavIOVecOuput> found(wanted.size());

   const auto started = std::chrono::steady_clock::now();
   Davix::Context context;
   Davix::DavPosix posix(&context);
   Davix::RequestParams parameters;
   if (count > 4) parameters.addCertificateAuthorityPath(words[4]);
   Davix::DavixError *error = nullptr;
   DAVIX_FD *file = posix.open(&parameters, words[1], O_RDONLY, &error);
   // It returns the size of its last response, so completeness is checked for each piece.
   if (file) posix.preadVec(file, wanted.data(), found.data(), wanted.size(), &error);
   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
   bool complete = !error;
   for (std::size_t i = 0; i < wanted.size(); ++i)
      complete = complete && found[i].diov_size == static_cast<dav_ssize_t>(wanted[i].diov_size);
   if (!complete) {
      std::cerr << "davix: " << (error ? error->getErrMsg() : "fewer bytes than requested") << "\n";
      return 1;
   }
   std::ofstream(words[3], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(total));
   std::printf("{\"seconds\": %.6f, \"bytes_used\": %zu}\n", took.count(), total);
   return 0;
}
