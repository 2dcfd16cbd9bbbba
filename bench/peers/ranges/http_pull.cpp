// Sends the requests of a file over some connections and discards the responses, with as little
// work as possible.
//
//   http_pull HOST PORT REQUESTS CONNECTIONS DEPTH [tls]
//
// REQUESTS: for each, a line with its length in bytes, then the request. They are sent in order; up
// to DEPTH of them wait for their response on a connection. Responses must have a Content-Length.
// Timed from the first connect to the last byte; prints one JSON object, with the number of
// responses that were neither 200 nor 206 as "refused".
#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string &what)
{
   std::cerr << "http_pull: " << what << "\n";
   std::exit(1);
}

constexpr std::size_t BUFFER = 256 << 10;
std::vector<std::string> requests;
std::size_t next_request = 0, answers = 0, refused = 0;
unsigned long long received = 0;
std::vector<char> buffer(BUFFER);

struct Connection {
   int fd = -1;
   SSL *tls = nullptr;
   std::string out;
   std::size_t written = 0;
   unsigned under_way = 0;
   std::string head;
   unsigned long long left = 0;

   // Returns the number of bytes received, or 0 if there are none now. The end of the connection is
   // a failure.
   long take(char *to, std::size_t capacity)
   {
      if (tls) {
         const int got = SSL_read(tls, to, static_cast<int>(capacity));
         if (got > 0) return got;
         const int why = SSL_get_error(tls, got);
         if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return 0;
         fail("the server closed a connection");
      }
      const ssize_t got = recv(fd, to, capacity, 0);
      if (got > 0) return got;
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
      fail("the server closed a connection");
   }

   void send_requests(unsigned depth)
   {
      while (under_way < depth && next_request < requests.size()) {
         out += requests[next_request++];
         ++under_way;
      }
      while (written < out.size()) {
         const long put = tls ? SSL_write(tls, out.data() + written, static_cast<int>(out.size() - written))
                              : send(fd, out.data() + written, out.size() - written, MSG_NOSIGNAL);
         if (put <= 0) return;
         written += static_cast<std::size_t>(put);
      }
      out.clear();
      written = 0;
   }

   // Processes received bytes: heads and bodies.
   void process(const char *bytes, std::size_t count)
   {
      while (count > 0) {
         if (left > 0) {
            const std::size_t part = left < count ? static_cast<std::size_t>(left) : count;
            left -= part, bytes += part, count -= part, received += part;
            if (left == 0) ++answers, --under_way;
            continue;
         }
         const std::size_t had = head.size();
         head.append(bytes, count);
         const std::size_t end = head.find("\r\n\r\n", had > 3 ? had - 3 : 0);
         if (end == std::string::npos) return;
         const std::size_t used = end + 4 - had;
         bytes += used, count -= used;
         head.resize(end + 2);
         const char *length = strcasestr(head.c_str(), "\r\ncontent-length:");
         if (!length) fail("a response without Content-Length:\n" + head);
         const int status = std::atoi(head.c_str() + 9);
         if (status != 200 && status != 206) ++refused;
         left = std::strtoull(length + 17, nullptr, 10);
         if (left == 0) ++answers, --under_way;
         head.clear();
      }
   }
};

int connected(const char *host, int port)
{
   const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
   sockaddr_in at{};
   at.sin_family = AF_INET;
   at.sin_port = htons(static_cast<unsigned short>(port));
   inet_pton(AF_INET, host, &at.sin_addr);
   if (connect(fd, reinterpret_cast<sockaddr *>(&at), sizeof at) != 0) fail("cannot connect");
   setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
   return fd;
}

} // namespace

int main(int count, char **words)
{
   if (count < 6) fail("usage: http_pull HOST PORT REQUESTS CONNECTIONS DEPTH [tls]");
   std::ifstream file(words[3], std::ios::binary);
   for (std::string line; std::getline(file, line);) {
      std::string request(std::stoul(line), '\0');
      file.read(request.data(), static_cast<std::streamsize>(request.size()));
      requests.push_back(std::move(request));
   }
   const unsigned connections = static_cast<unsigned>(std::atoi(words[4])), depth = static_cast<unsigned>(std::atoi(words[5]));
   SSL_CTX *context = count > 6 ? SSL_CTX_new(TLS_client_method()) : nullptr;

   const auto started = std::chrono::steady_clock::now();
   const int queue = epoll_create1(0);
   std::deque<Connection> all(connections);
   for (Connection &each : all) {
      each.fd = connected(words[1], std::atoi(words[2]));
      if (context) {
         each.tls = SSL_new(context);
         SSL_set_fd(each.tls, each.fd);
         SSL_set_mode(each.tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
         if (SSL_connect(each.tls) != 1) fail("the TLS handshake failed");
      }
      fcntl(each.fd, F_SETFL, O_NONBLOCK);
      each.send_requests(depth);
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLET;
      event.data.ptr = &each;
      epoll_ctl(queue, EPOLL_CTL_ADD, each.fd, &event);
   }
   while (answers < requests.size()) {
      epoll_event events[64];
      const int ready = epoll_wait(queue, events, 64, 30000);
      if (ready == 0) fail("received nothing for 30 s");
      for (int i = 0; i < ready; ++i) {
         Connection &each = *static_cast<Connection *>(events[i].data.ptr);
         while (true) {
            each.send_requests(depth);
            if (each.under_way == 0 && each.out.empty()) break;
            const long got = each.take(buffer.data(), buffer.size());
            if (got == 0) break;
            each.process(buffer.data(), static_cast<std::size_t>(got));
         }
      }
   }
   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
   std::printf("{\"seconds\": %.6f, \"bytes\": %llu, \"answers\": %zu, \"refused\": %zu}\n", took.count(), received, answers, refused);
   return 0;
}
