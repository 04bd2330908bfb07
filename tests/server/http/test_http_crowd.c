/* Those who take more than their share: of turns, of places, of memory. Others are served all the same. */
#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/http_client.h"

#include <elf.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char live[] = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";

static int status_of(int fd) {
    char *text = raw_read_until(fd, "}");
    int status = strlen(text) > 12 ? atoi(text + 9) : 0;
    free(text);
    return status;
}

static int ask_live(const Daemon *d) {
    int fd = raw_connect(d);
    raw_send(fd, live, sizeof live - 1);
    int status = status_of(fd);
    close(fd);
    return status;
}

/* Of the requests of so many that each send a flood, how many are answered when one is that came after them. All are
 * there before the daemon goes on, and it stops when that one is served: the fewest of several tries count, for the
 * machine may stall before it stops. */
static int answered_before(const char *flood, int greedy) {
    Daemon d;
    int *fds = xcalloc((size_t)greedy, sizeof *fds), answered = 0;
    if (!daemon_start(&d, CHECKPOINT_SMALL, NULL)) return INT_MAX;
    for (int i = 0; i < greedy; i++) fds[i] = raw_connect(&d);
    CHECK(ask_live(&d) == 200); /* they have their places */
    kill(d.pid, SIGSTOP);
    for (int i = 0; i < greedy; i++) CHECK(raw_send(fds[i], flood, strlen(flood)));
    int fd = raw_connect(&d);
    CHECK(raw_send(fd, live, sizeof live - 1));
    kill(d.pid, SIGCONT);
    CHECK(status_of(fd) == 200);
    kill(d.pid, SIGSTOP);
    for (int i = 0; i < greedy; i++) {
        char *text = raw_read(fds[i], 0.01, NULL);
        answered += text_count(text, "HTTP/1.1 200 ");
        free(text);
        close(fds[i]);
    }
    kill(d.pid, SIGCONT);
    close(fd);
    free(fds);
    daemon_stop(&d);
    return answered;
}

/* A connection gets one request a turn, whatever it has sent ahead: who comes after 64 that have sent hundreds each is
 * not the last to be answered. */
TEST(http_turns_are_shared) {
    enum { GREEDY = 64, AHEAD = 300 };
    static const char *const requests[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                           "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"};
    for (size_t k = 0; k < COUNTOF(requests); k++) {
        int answered = INT_MAX;
        Text flood = {xcalloc(AHEAD + 1, strlen(requests[k])), 0};
        for (int i = 0; i < AHEAD; i++) strcat(flood.data, requests[k]);
        for (int try = 0; try < TRIES && answered >= GREEDY * AHEAD / 2; try++)
            answered = MIN(answered, answered_before(flood.data, GREEDY));
        CHECK_MSG(answered < GREEDY * AHEAD / 2, "%d of %d were answered before it", answered, GREEDY * AHEAD);
        free(flood.data);
    }
}

/* Silent connections in all places: the server still says that it lives, and to all others that it is full. */
TEST(http_liveness_has_places_of_its_own) {
    enum { PLACES = 50 };
    static const char models[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    Daemon d;
    int silent[2 * PLACES];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-connections 50"));
    for (int i = 0; i < 2 * PLACES; i++) silent[i] = raw_connect(&d);
    for (int i = 0; i < 20; i++) {
        int status = ask_live(&d), fd = raw_connect(&d);
        CHECK_MSG(status == 200, "/health/live: %d", status);
        CHECK(raw_send(fd, models, sizeof models - 1));
        status = status_of(fd);
        CHECK_MSG(status == 503, "/v1/models: %d", status);
        close(fd);
    }
    for (int i = 0; i < 2 * PLACES; i++) close(silent[i]);
    daemon_stop(&d);
}

TEST(http_places_for_an_address) {
    Daemon d;
    int fds[5];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-connections-per-address 4"));
    for (int i = 0; i < 5; i++) {
        fds[i] = raw_connect(&d);
        CHECK(raw_send(fds[i], live, sizeof live - 1));
        char *text = raw_read_until(fds[i], "}");
        CHECK_MSG(!strncmp(text + 9, i < 4 ? "200" : "503", 3) && (i < 4 || strstr(text, "from this address")),
                  "connection %d: %s", i, text);
        free(text);
    }
    for (int i = 0; i < 5; i++) close(fds[i]);
    int status = 0;
    for (double t0 = now_seconds(); status != 200 && now_seconds() - t0 < PATIENCE; usleep(20000))
        status = ask_live(&d);
    CHECK_MSG(status == 200, "%d after all have gone", status);
    daemon_stop(&d);
}

static int post_all_but_the_last(const Daemon *d, size_t n) {
    char head[128], *body = xcalloc(1, n);
    int fd = raw_connect(d),
        m = snprintf(head, sizeof head, "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", n);
    memset(body, ' ', n);
    CHECK(raw_send(fd, head, (size_t)m) && raw_send(fd, body, n - 1));
    free(body);
    return fd;
}

/* Bodies that hold back their last byte share one bound: the largest goes first, and small ones are read. */
TEST(http_bodies_share_one_bound) {
    enum { MANY = 40, SMALL = 4000, LARGE = 60000 };
    Daemon d;
    int fds[MANY];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-bodies 400000 --body-seconds 60"));
    int small = post_all_but_the_last(&d, SMALL), largest = post_all_but_the_last(&d, 2 * LARGE);
    for (int i = 0; i < MANY; i++) fds[i] = post_all_but_the_last(&d, LARGE);
    char *text = raw_read_until(largest, "}");
    CHECK_MSG(!strncmp(text, "HTTP/1.1 503", 12) && strstr(text, "Retry-After: "), "the largest hears %s", text);
    free(text);
    Answer a = http_post(&d, "/tokenize", "{\"prompt\":\"x\"}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    CHECK(raw_send(small, "x", 1));
    int status = status_of(small);
    CHECK_MSG(status == 400, "the small one: %d", status); /* no JSON, but read */
    int refused = 0;
    bool heard[MANY] = {false};
    for (double t0 = now_seconds(); refused < MANY - 400000 / LARGE && now_seconds() - t0 < PATIENCE;)
        for (int i = 0; i < MANY; i++) {
            if (heard[i]) continue;
            text = raw_read(fds[i], 0.01, NULL);
            heard[i] = !strncmp(text, "HTTP/1.1 503", 12);
            refused += heard[i];
            free(text);
        }
    for (int i = 0; i < MANY; i++) close(fds[i]);
    CHECK_MSG(refused >= MANY - 400000 / LARGE && refused < MANY, "%d of %d refused", refused, MANY);
    close(small);
    close(largest);
    daemon_stop(&d);
}

/* Answers of megabytes that nobody reads share another: who has been at theirs for longest goes, the last is whole. */
TEST(http_answers_that_are_not_read_share_one_bound) {
    enum { MANY = 6, LENGTH = 250000 };
    Daemon d;
    int fds[MANY];
    char head[128], *body = xcalloc(1, LENGTH + 1);
    snprintf(body, LENGTH, "{\"content\":\"");
    size_t n = strlen(body);
    memset(body + n, 'a', LENGTH - n);
    strcpy(body + LENGTH - 25, "\",\"with_pieces\":true    }");
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-bodies 400000 --write-seconds 60"));
    for (int i = 0; i < MANY; i++) {
        fds[i] = raw_connect(&d);
        int m = snprintf(head, sizeof head,
                         "POST /tokenize HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                         strlen(body));
        CHECK(raw_send(fds[i], head, (size_t)m) && raw_send(fds[i], body, strlen(body)) &&
              raw_expect(fds[i], "HTTP/1.1 200"));
    }
    int cut = 0;
    for (int i = 0; i < MANY; i++) {
        bool closed;
        char *text = raw_read(fds[i], i < MANY - 1 ? 0.5 : PATIENCE, &closed);
        bool whole = strstr(text, "]}") != NULL;
        cut += !whole;
        CHECK_MSG(i < MANY - 1 || whole, "the last one has %zu bytes", strlen(text));
        free(text);
        close(fds[i]);
    }
    CHECK_MSG(cut > 0, "none was cut");
    free(body);
    daemon_stop(&d);
}

/* Who began a request and does not go on is told why the connection ends; who began none is not. */
TEST(http_slow_requests_hear_408) {
    static const struct {
        const char *bytes, *hears;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHo", "HTTP/1.1 408 "},
        {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", "HTTP/1.1 408 "},
        {"", ""},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--header-seconds 0.3 --body-seconds 0.3"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        bool right = false;
        for (int try = 0; try < TRIES && !right; try++) { /* its time may be over before the bytes are there */
            bool closed;
            int fd = raw_connect(&d);
            raw_send(fd, cases[i].bytes, strlen(cases[i].bytes));
            char *text = raw_read(fd, PATIENCE, &closed);
            right = closed && !strncmp(text, cases[i].hears, strlen(cases[i].hears)) && (*cases[i].hears || !*text);
            if (!right) printf("  case %zu hears \"%s\"\n", i, text);
            free(text);
            close(fd);
        }
        CHECK_MSG(right, "case %zu hears something else", i);
    }
    daemon_stop(&d);
}

/* ---- a library that reads in another way ---- */

/* In a copy of libmicrohttpd, what it imports as recv becomes read, which the gate does not see. */
static bool read_instead_of_recv(char *file) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        Elf64_Sym *symbols = (Elf64_Sym *)(file + sections[i].sh_offset), *recv = NULL, *read = NULL;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            if (!strcmp(names + symbols[k].st_name, "recv")) recv = &symbols[k];
            if (!strcmp(names + symbols[k].st_name, "read")) read = &symbols[k];
        }
        if (recv && read) recv->st_name = read->st_name;
        return recv && read;
    }
    return false;
}

static char *find_library(void) {
    char line[512], *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, "libmicrohttpd.so")) continue;
        path[strcspn(path, "\n")] = 0;
        found = xstrdup(path);
    }
    if (maps) fclose(maps);
    return found;
}

TEST(http_refuses_a_library_that_reads_past_the_gate) {
    char *path = find_library(), copy[512], options[600], *errors;
    const char *dir = test_dir();
    char *file = xcalloc(1, 4 << 20);
    REQUIRE(path);
    FILE *f = fopen(path, "rb");
    REQUIRE(f);
    size_t n = fread(file, 1, 4 << 20, f);
    fclose(f);
    if (n < sizeof(Elf64_Ehdr) || file[EI_CLASS] != ELFCLASS64 || !read_instead_of_recv(file))
        SKIP("a library that is not 64-bit, or does not import recv and read");
    snprintf(copy, sizeof copy, "%s/%s", dir, strstr(path, "libmicrohttpd.so"));
    char *so = strstr(copy, ".so.");
    if (so) so[strcspn(so + 4, ".") + 4] = 0; /* by the name that programs ask for */
    test_write_file(copy, file, n);
    snprintf(options, sizeof options, "--model %s --port 0", test_checkpoint(CHECKPOINT_SMALL));
    setenv("LD_LIBRARY_PATH", dir, 1);
    int status = daemon_run(options, &errors);
    unsetenv("LD_LIBRARY_PATH");
    CHECK_MSG(status == 1 && strstr(errors, "libmicrohttpd") && strstr(errors, "recv()"), "%d: %s", status, errors);
    free(errors);
    free(file);
    free(path);
}
