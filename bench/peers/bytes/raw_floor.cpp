// The floor of copies: bytes over some TCP connections, with as little work as possible.
//
//   raw_floor serve HOST PORT
//   raw_floor down|up HOST PORT CONNECTIONS BYTES
//
// The client opens all connections at once and keeps them. Both ends take what is to be sent from
// one store for all connections, in chunks, so that a slow connection gets few of them; what
// arrives is dropped in the kernel. Sockets are those of the contender: a receive buffer of 4 MiB,
// requested before connecting (`receive_buffer_bytes` of hither's transport), no delay, and at most
// 256 KiB that wait to be sent. Ends with 1 unless exactly BYTES arrived.
#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::size_t CHUNK = 128 << 10;
constexpr int UNSENT = 256 << 10, RECEIVE_BUFFER = 4 << 20;

// What a connection begins with. Both ends run on machines of one kind.
struct Head {
   std::uint64_t job, bytes;
   bool is_up;
};

using Left = std::atomic<std::int64_t>;

[[noreturn]] void fail(const std::string &what)
{
   std::cerr << "raw_floor: " << what << ": " << std::strerror(errno) << "\n";
   std::exit(1);
}

void set(int socket, int level, int option, int value)
{
   if (setsockopt(socket, level, option, &value, sizeof value) != 0)
      fail("setsockopt");
}

int open_socket()
{
   const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
   if (socket < 0)
      fail("socket");
   set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
   set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT);
   return socket;
}

sockaddr_in address(const char *host, const char *port)
{
   sockaddr_in found{};
   found.sin_family = AF_INET;
   found.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
   if (inet_pton(AF_INET, host, &found.sin_addr) != 1)
      fail("address");
   return found;
}

// Returns false if the other end is gone.
bool send_all(int socket, const void *from, std::size_t length)
{
   for (std::size_t done = 0; done < length;) {
      const auto sent = send(socket, static_cast<const char *>(from) + done, length - done, MSG_NOSIGNAL);
      if (sent < 0)
         return false;
      done += static_cast<std::size_t>(sent);
   }
   return true;
}

// Sends chunks as long as some are left, and then the end.
void send_share(int socket, Left &left)
{
   static const std::vector<char> zeros(CHUNK);
   for (;;) {
      const auto before = left.fetch_sub(CHUNK);
      if (before <= 0 ||
          !send_all(socket, zeros.data(), std::min<std::size_t>(CHUNK, static_cast<std::size_t>(before))))
         break;
   }
   shutdown(socket, SHUT_WR);
}

// Drops what arrives, up to the end; returns its length.
std::uint64_t drop_all(int socket)
{
   std::uint64_t all = 0;
   for (;;) {
      // tcp(7): with MSG_TRUNC the bytes are not copied.
      const auto got = recv(socket, nullptr, 1 << 20, MSG_TRUNC);
      if (got <= 0)
         return all;
      all += static_cast<std::uint64_t>(got);
   }
}

std::mutex jobs_lock;
std::map<std::uint64_t, std::shared_ptr<Left>> jobs;

void serve(int socket)
{
   Head head{};
   if (recv(socket, &head, sizeof head, MSG_WAITALL) == sizeof head) {
      if (head.is_up) {
         const auto arrived = drop_all(socket);
         send_all(socket, &arrived, sizeof arrived);
      } else {
         std::shared_ptr<Left> left;
         {
            const std::lock_guard<std::mutex> guard(jobs_lock);
            left = jobs.try_emplace(head.job, std::make_shared<Left>(head.bytes)).first->second;
         }
         send_share(socket, *left);
      }
   }
   close(socket);
}

[[noreturn]] void run_server(const char *host, const char *port)
{
   const int listener = open_socket();
   set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
   const auto here = address(host, port);
   if (bind(listener, reinterpret_cast<const sockaddr *>(&here), sizeof here) != 0 || listen(listener, 1024) != 0)
      fail("listen");
   for (;;) {
      const int socket = accept(listener, nullptr, nullptr);
      if (socket < 0)
         fail("accept");
      std::thread(serve, socket).detach();
   }
}

} // namespace

int main(int argc, char **argv)
{
   const std::string way = argc > 1 ? argv[1] : "";
   if (way == "serve" && argc == 4)
      run_server(argv[2], argv[3]);
   if ((way != "down" && way != "up") || argc != 6) {
      std::cerr << "raw_floor serve HOST PORT, or raw_floor down|up HOST PORT CONNECTIONS BYTES\n";
      return 2;
   }
   const auto there = address(argv[2], argv[3]);
   const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
   const Head head{static_cast<std::uint64_t>(now), std::stoull(argv[5]), way == "up"};
   Left left(static_cast<std::int64_t>(head.bytes));
   std::atomic<std::uint64_t> arrived{0};
   std::vector<std::thread> connections;
   for (int number = std::stoi(argv[4]); number > 0; --number) {
      connections.emplace_back([&] {
         const int socket = open_socket();
         set(socket, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
         if (connect(socket, reinterpret_cast<const sockaddr *>(&there), sizeof there) != 0)
            fail("connect");
         if (!send_all(socket, &head, sizeof head))
            fail("send");
         std::uint64_t moved = 0;
         if (head.is_up) {
            send_share(socket, left);
            if (recv(socket, &moved, sizeof moved, MSG_WAITALL) != sizeof moved)
               fail("recv");
         } else {
            moved = drop_all(socket);
         }
         arrived += moved;
         close(socket);
      });
   }
   for (auto &connection : connections)
      connection.join();
   if (arrived != head.bytes) {
      std::cerr << "raw_floor: " << arrived << " bytes arrived\n";
      return 1;
   }
   return 0;
}
