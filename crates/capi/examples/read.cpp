// Reads two parts of a file at once by futures: read URL.
#include <hither.hpp>
#include <iostream>

int main(int argc, char **argv)
try {
    if (argc != 2) {
        std::cerr << "usage: read URL\n";
        return 2;
    }
    const hither::Client client({{"max_connections", "8"}, {"store", ""}});
    const hither::File file = client.open(argv[1]);
    std::cout << file.size() << " bytes\n";

    hither::Reader reader(client);
    auto head = reader.read(file, {{0, 100}, {1000, 100}});
    auto tail = reader.read(file, {{file.size() - 50, 50}});
    std::cout << head.get().size() << " and " << tail.get().size() << " bytes\n";
    std::cout << client.report() << "\n";
} catch (const hither::Error &error) {
    std::cerr << error.what() << " (kind " << error.kind() << ")\n";
    return 1;
}
