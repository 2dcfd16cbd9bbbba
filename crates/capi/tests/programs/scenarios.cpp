// The scenarios of davix-tester: scenarios URL FOLDER. There is nothing at URL yet; FOLDER is a local directory.
#include <algorithm>
#include <fstream>
#include <hither.hpp>
#include <iostream>
#include <iterator>

static const hither::Client &client()
{
    static const hither::Client client({{"store", ""}});
    return client;
}

static void check(bool holds, const std::string &what)
{
    if (!holds)
        throw std::runtime_error(what);
}

static const std::string content = [] {
    std::string text;
    for (int at = 0; at < 2000; at++)
        text += static_cast<char>('a' + (7 * at + at / 256) % 26);
    return text;
}();

static std::string file(const std::string &folder, int number)
{
    return folder + "/davix-testfile-" + std::to_string(number);
}

template <typename Call> static bool is_not_found(Call call)
{
    try {
        call();
    } catch (const hither::Error &error) {
        return error.kind() == HITHER_KIND_NOT_FOUND;
    }
    return false;
}

static void check_nothing(const std::string &url)
{
    check(is_not_found([&] { client().stat(url); }), "there is something at " + url);
    check(is_not_found([&] { client().remove(url); }), "removed something at " + url);
}

static void check_file(const std::string &url)
{
    const hither::Entry entry = client().stat(url);
    check(entry.kind == HITHER_FILE_KIND_FILE && entry.size == content.size(), url + " is not the file");
}

// Returns true where there are no empty directories.
static bool is_in_bucket(const std::string &url)
{
    return url.rfind("s3:", 0) == 0;
}

static void make_collection(const std::string &folder)
{
    client().mkdir(folder);
    if (is_in_bucket(folder))
        return;
    check(client().list(folder).empty(), "a new directory is not empty");
    check(client().stat(folder).kind == HITHER_FILE_KIND_DIRECTORY, "no directory");
    check(client().stat(folder + "/").kind == HITHER_FILE_KIND_DIRECTORY, "no directory with a slash");
}

static void populate(const std::string &folder, int files)
{
    for (int number = 1; number <= files; number++) {
        client().put(file(folder, number), content.data(), content.size());
        check_file(file(folder, number));
    }
}

static void listing(const std::string &folder, int from, int to)
{
    std::vector<std::string> found;
    std::vector<std::string> expected;
    for (const hither::Entry &entry : client().list(folder))
        found.push_back(entry.name);
    for (int number = from; number <= to; number++)
        expected.push_back(file("", number).substr(1));
    std::sort(found.begin(), found.end());
    check(found == expected, "the list has " + std::to_string(found.size()) + " names");
}

static void preadvec(const std::string &url, const std::vector<hither::Range> &ranges)
{
    std::string expected;
    for (const hither::Range &range : ranges)
        expected += content.substr(range.offset, range.length);
    const std::vector<char> bytes = client().open(url).read(ranges);
    check(std::string(bytes.begin(), bytes.end()) == expected, "preadvec");
}

static void preadvec_all(const std::string &url)
{
    preadvec(url, {{0, 11}, {5, 6}, {3, 2}, {30, 11}, {200, 106}, {1000, 501}});
    preadvec(url, {{0, 11}, {5, 6}});
    preadvec(url, {{0, 11}, {15, 6}});
}

// test_valid_write_read_fd and test_valid_write_read_generic_simple.
static void write_and_read(const std::string &url, const std::string &folder)
{
    client().put(url, "", 0);
    check(client().stat(url).size == 0 && client().open(url).size() == 0, "an empty file");
    std::ofstream(folder + "/up") << content;
    client().put_file(url, folder + "/up", true);
    client().get_file(url, folder + "/down");
    std::ifstream down(folder + "/down");
    check(std::string(std::istreambuf_iterator<char>(down), {}) == content, "other bytes");
    const std::string checksum = client().checksum(folder + "/up", "adler32");
    check(client().checksum(url, "adler32") == checksum, "checksum");
    client().remove(url);
    check_nothing(url);
}

static void move_and_back(const std::string &url)
{
    client().rename(url, url + "-moved");
    check_file(url + "-moved");
    check_nothing(url);
    client().rename(url + "-moved", url);
}

int main(int, char **arguments)
{
    const std::string folder = arguments[1];
    try {
        check_nothing(folder);
        make_collection(folder);
        populate(folder, 5);
        listing(folder, 1, 5);
        preadvec_all(file(folder, 1));
        move_and_back(file(folder, 1));
        write_and_read(file(folder, 6), arguments[2]);
        for (int number = 1; number <= 3; number++)
            client().remove(file(folder, number));
        listing(folder, 4, 5);
        client().remove(folder, true);
        // A store over a file system may keep the directory.
        if (!is_in_bucket(folder))
            check_nothing(folder);
        check_nothing(file(folder, 4));
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    std::cout << "all scenarios passed\n";
}
