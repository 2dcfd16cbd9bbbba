// Calls of the C++ library: calls URL FOLDER. The file at URL is that of calls.c.
#include <cstdlib>
#include <hither.hpp>
#include <iostream>

static int failures = 0;

static void check(bool holds, const char *what)
{
    if (!holds) {
        std::cerr << what << "\n";
        failures++;
    }
}

template <typename Call> static hither_kind kind_of(Call call)
{
    try {
        call();
    } catch (const hither::Error &error) {
        return error.kind();
    }
    return HITHER_KIND_NONE;
}

static bool equal(const std::vector<char> &bytes, size_t at, uint64_t offset, size_t length)
{
    for (size_t next = 0; next < length; next++, offset++)
        if (static_cast<unsigned char>(bytes.at(at + next)) != (7 * offset + offset / 256) % 251)
            return false;
    return true;
}

static void reads(const hither::Client &client, const std::string &url)
{
    hither::File opened = client.open(url);
    const hither::File file = std::move(opened);
    const std::vector<char> both = file.read({{500, 100}, {50, 10}});
    check(both.size() == 110 && equal(both, 0, 500, 100) && equal(both, 100, 50, 10), "read");
    std::vector<char> bytes(20);
    check(file.pread(bytes.data(), 20, 7) == 20 && equal(bytes, 0, 7, 20), "pread");
    file.hint({{5000, 10}}, 1.0).cancel();
    check(kind_of([&] { file.read({{file.size(), 1}}); }) == HITHER_KIND_CORRUPT, "beyond");
    check(kind_of([&] { client.open(url + "/missing").size(); }) == HITHER_KIND_NOT_FOUND, "missing");

    hither::Reader reader(client);
    std::vector<std::future<std::vector<char>>> futures;
    for (uint64_t at = 0; at < 100; at++)
        futures.push_back(reader.read(file, {{10 * at, 5}, {10 * at + 5, 5}}));
    for (uint64_t at = 0; at < 100; at++)
        check(equal(futures[at].get(), 0, 10 * at, 10), "future");
    auto failing = reader.read(file, {{file.size(), 1}});
    check(kind_of([&] { failing.get(); }) == HITHER_KIND_CORRUPT, "failing future");
    check(kind_of([&] { reader.read(file, {{UINT64_MAX, 2}}); }) == HITHER_KIND_INVALID, "submit");
}

static void storage(const hither::Client &client, const std::string &folder)
{
    client.mkdir(folder + "/made");
    client.put(folder + "/made/a", "content", 7);
    client.put_file(folder + "/made/b", folder + "/made/a");
    client.get_file(folder + "/made/a", folder + "/made/c");
    client.rename(folder + "/made/c", folder + "/made/d");
    const hither::Entry made = client.stat(folder + "/made/d");
    check(made.size == 7, "stat");
    client.put_if(folder + "/made/d", "version", 7, &made);
    check(kind_of([&] { client.put_if(folder + "/made/d", "lost", 4, &made); }) == HITHER_KIND_CHANGED, "stale");
    for (const hither::Entry &listed : client.list(folder + "/made"))
        if (listed.name == "d")
            client.put_file_if(listed.url, folder + "/made/a", &listed);
    check(kind_of([&] { client.put_file_if(made.url, folder + "/made/a", nullptr); }) == HITHER_KIND_ALREADY_EXISTS, "free");
    check(client.list(folder + "/made").size() == 3, "list");
    check(client.checksum(folder + "/made/d", "crc32c").rfind("crc32c:", 0) == 0, "checksum");
    int calls = 0;
    client.copy(folder + "/made", folder + "/copy", {{"recursive", "true"}}, [&](const auto &progress) {
        calls++;
        return progress.files_done <= 3;
    });
    check(calls > 0 && client.list(folder + "/copy").size() == 3, "copy");
    bool thrown = false;
    try {
        client.copy(folder + "/made/a", folder + "/x", {}, [](const auto &) -> bool { throw 7; });
    } catch (int) {
        thrown = true;
    }
    check(thrown, "exceptions of progress");
    client.remove(folder + "/made", true);
    check(kind_of([&] { client.stat(folder + "/made"); }) == HITHER_KIND_NOT_FOUND, "removed");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return EXIT_FAILURE;
    check(kind_of([] { hither::Client({{"no", "option"}}); }) == HITHER_KIND_INVALID, "options");
    hither::Options options{{"store", ""}};
    options.set("max_connections", "4");
    const hither::Client client(options);
    reads(client, argv[1]);
    storage(client, argv[2]);
    check(client.report().find("\"requests\":") != std::string::npos, "report");
    std::cout << failures << " failures\n";
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
