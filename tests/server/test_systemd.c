/* What the daemon tells a service manager, and the socket that it gets from one. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/systemd.h"
#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The manager's end of NOTIFY_SOCKET, under a path or (with @) an abstract name; the process is a part of the latter,
   for the suites of two builds may run at once. */
static int manager_open(const char *wanted) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[sizeof at.sun_path];
    int printed = *wanted == '@' ? snprintf(name, sizeof name, "%s-%d", wanted, (int)getpid())
                                 : snprintf(name, sizeof name, "%s", wanted);
    BUG_ON(printed >= (int)sizeof name);
    size_t n = strlen(name);
    memcpy(at.sun_path, name, n);
    if (*name == '@') at.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    BUG_ON(fd < 0 || bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)));
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void manager_close(int fd) {
    unsetenv("NOTIFY_SOCKET");
    close(fd);
}

/* The first message that holds `what`, malloc'ed; NULL after `seconds`. */
static char *manager_hears(int fd, const char *what, double seconds) {
    char text[1024];
    for (double until = now_seconds() + seconds, left; (left = until - now_seconds()) > 0;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)(1000 * left)) != 1) continue;
        ssize_t n = recv(fd, text, sizeof text - 1, 0);
        text[MAX(n, 0)] = 0;
        if (strstr(text, what)) return xstrdup(text);
    }
    return NULL;
}

static void expect_message(int fd, const char *what, const char *also) {
    char *text = manager_hears(fd, what, PATIENCE);
    CHECK_MSG(text && strstr(text, also), "%s: %s", what, text ? text : "not said");
    free(text);
}

TEST(systemd_notify) {
    int fd = manager_open("@noised-test-notify");
    systemd_notify("READY=%d\nSTATUS=%s", 1, "fine");
    expect_message(fd, "READY=1\nSTATUS=fine", "");
    manager_close(fd);
    systemd_notify("READY=1"); /* nobody listens: nothing happens */
    setenv("NOTIFY_SOCKET", "relative", 1);
    systemd_notify("READY=1");
    unsetenv("NOTIFY_SOCKET");

    char other[16];
    snprintf(other, sizeof other, "%d", getpid() + 1); /* in a container this process may be 1 */
    CHECK(systemd_watchdog_seconds() == 0);
    setenv("WATCHDOG_USEC", "2500000", 1);
    CHECK(systemd_watchdog_seconds() == 2.5);
    setenv("WATCHDOG_PID", other, 1);
    CHECK(systemd_watchdog_seconds() == 0);
    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "2500000x", 1);
    CHECK(systemd_watchdog_seconds() == 0);
    unsetenv("WATCHDOG_USEC");
}

TEST(systemd_lifecycle) {
    Daemon d;
    const char *dir = test_dir();
    int fd = manager_open(test_text("%s/notify", dir));
    setenv("WATCHDOG_USEC", "400000", 1);
    bool up = daemon_start(&d, CHECKPOINT_SMALL, NULL);
    unsetenv("WATCHDOG_USEC");
    if (up) {
        expect_message(fd, "READY=1", "STATUS=serving, fingerprint ");
        expect_message(fd, "WATCHDOG=1", "");
        expect_message(fd, "WATCHDOG=1", "");
        kill(d.pid, SIGHUP);
        expect_message(fd, "RELOADING=1", "MONOTONIC_USEC=");
        expect_message(fd, "READY=1", "STATUS=serving");
        kill(d.pid, SIGTERM);
        expect_message(fd, "STOPPING=1", "");
        daemon_stop(&d);
    }
    manager_close(fd);
}

/* Or the manager would end a daemon that lets long answers end. */
TEST(systemd_watchdog_hears_while_it_drains) {
    Daemon d;
    int fd = manager_open("@noised-test-drain");
    setenv("WATCHDOG_USEC", "400000", 1);
    bool up = daemon_start(&d, CHECKPOINT_SLOW, NULL);
    unsetenv("WATCHDOG_USEC");
    if (up) {
        int stream = raw_completion(&d, "{\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}");
        CHECK(raw_expect(stream, "data: "));
        kill(d.pid, SIGTERM);
        expect_message(fd, "STOPPING=1", "");
        expect_message(fd, "WATCHDOG=1", "");
        expect_message(fd, "WATCHDOG=1", "");
        close(stream);
        daemon_stop(&d);
    }
    manager_close(fd);
}

/* Files that change under the daemon end its service, which manager and log hear of at once, as of what ends that. */
TEST(systemd_hears_of_damage) {
    Daemon d;
    const char *dir = test_dir();
    char log[300], config[300], aside[300], weights[300];
    int fd = manager_open("@noised-test-damage");
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    daemon_log_to(log);
    bool up = daemon_start_at(&d, dir, NULL);
    daemon_log_to(NULL);
    if (up) {
        expect_message(fd, "READY=1", "STATUS=serving");
        CHECK(utimensat(AT_FDCWD, weights, (const struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0) == 0);
        expect_message(fd, "READY=1", "STATUS=damaged");
        CHECK(rename(config, aside) == 0);
        kill(d.pid, SIGHUP);
        expect_message(fd, "STATUS=the last reload was refused", "nothing is answered");
        CHECK(rename(aside, config) == 0);
        kill(d.pid, SIGHUP);
        expect_message(fd, "READY=1", "STATUS=serving");
        Answer a = http_get(&d, "/health");
        CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
        daemon_stop(&d);
        char *lines = test_read_file(log, NULL);
        CHECK_MSG(strstr(lines, " error: ") && strstr(lines, "the files were changed or cannot be read") &&
                      strstr(lines, "the reload is refused, and nothing is answered until there is a good one"),
                  "%s", lines);
        free(lines);
    }
    manager_close(fd);
}

/* A reload that cannot even begin is one that was refused: the manager must not wait for it. */
TEST(systemd_reload_without_a_thread) {
    if (SLOWNESS > 1) SKIP("a sanitizer needs more address space than there is");
    Daemon d;
    int fd = manager_open("@noised-test-threads");
    bool up = daemon_start(&d, CHECKPOINT_SMALL, NULL);
    if (up) {
        long pages = 0;
        FILE *f = fopen(test_text("/proc/%d/statm", (int)d.pid), "r");
        CHECK(f && fscanf(f, "%ld", &pages) == 1 && fclose(f) == 0);
        expect_message(fd, "READY=1", "STATUS=serving");
        rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
        CHECK(prlimit(d.pid, RLIMIT_AS, &(struct rlimit){now, now}, NULL) == 0);
        kill(d.pid, SIGHUP);
        expect_message(fd, "RELOADING=1", "");
        expect_message(fd, "READY=1", "STATUS=the last reload was refused");
        daemon_stop(&d);
    }
    manager_close(fd);
}

/* ---- a thread that hangs ---- */

/* The daemon's thread that waits in epoll, 0: none does at the moment. */
static pid_t http_thread(const Daemon *d) {
    pid_t found = 0;
    DIR *dir = opendir(test_text("/proc/%d/task", (int)d->pid));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long call = -1;
        FILE *f = fopen(test_text("/proc/%d/task/%.20s/syscall", (int)d->pid, e->d_name), "r");
        if (f && fscanf(f, "%ld", &call) == 1 &&
            (call == SYS_epoll_pwait
#ifdef SYS_epoll_wait
             || call == SYS_epoll_wait
#endif
             ))
            found = atoi(e->d_name);
        if (f) fclose(f);
    }
    if (dir) closedir(dir);
    return found;
}

TEST(systemd_watchdog_hears_from_the_http_loop) {
    Daemon d;
    int fd = manager_open("@noised-test-watchdog"), status;
    setenv("WATCHDOG_USEC", "400000", 1);
    bool up = daemon_start(&d, CHECKPOINT_SMALL, NULL), stopped = false;
    unsetenv("WATCHDOG_USEC");
    pid_t thread = 0;
    for (double t0 = now_seconds(); up && !thread && now_seconds() - t0 < PATIENCE;) thread = http_thread(&d);
    if (thread) {
        expect_message(fd, "WATCHDOG=1", "");
        stopped = !ptrace(PTRACE_SEIZE, thread, NULL, NULL) && !ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) &&
                  waitpid(thread, &status, __WALL) == thread;
    }
    if (stopped) {
        free(manager_hears(fd, "nothing", 0.4)); /* what was said before */
        char *text = manager_hears(fd, "WATCHDOG=1", 1);
        CHECK_MSG(!text, "%s", text);
        free(text);
        ptrace(PTRACE_DETACH, thread, NULL, NULL);
        expect_message(fd, "WATCHDOG=1", "");
    }
    if (up) daemon_stop(&d);
    manager_close(fd);
    if (up && !stopped) SKIP("no thread may be stopped here (ptrace)");
}

enum { MOST_THREADS = 64 };

/* Stops all threads of the daemon but the one; returns how many, 0 where that cannot be done. */
static int stop_all_but(const Daemon *d, pid_t one, pid_t stopped[MOST_THREADS]) {
    int n = 0, status;
    DIR *dir = opendir(test_text("/proc/%d/task", (int)d->pid));
    for (struct dirent *e; dir && (e = readdir(dir)) && n < MOST_THREADS;) {
        pid_t thread = atoi(e->d_name);
        if (thread == 0 || thread == one || ptrace(PTRACE_SEIZE, thread, NULL, NULL)) continue;
        bool stops = !ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) && waitpid(thread, &status, __WALL) == thread;
        CHECK(stops);
        stopped[n++] = thread;
    }
    if (dir) closedir(dir);
    return n;
}

static bool comes_to_say(const Daemon *d, int status, const char *text) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(50000)) {
        Answer health = http_get(d, "/health"), live = http_get(d, "/health/live");
        if (health.status == status && live.status == status && strstr(health.body, text) && strstr(live.body, text))
            return true;
    }
    return false;
}

/* Who is told to watch /health/live restarts such a daemon; the HTTP loop alone would look alive for ever. */
TEST(health_of_an_engine_that_hangs) {
    Daemon d;
    pid_t http = 0, stopped[MOST_THREADS];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    CHECK(comes_to_say(&d, 200, "\"ok\""));
    for (double t0 = now_seconds(); !http && now_seconds() - t0 < PATIENCE;) http = http_thread(&d);
    int n = stop_all_but(&d, http, stopped);
    bool stuck = n > 0 && comes_to_say(&d, 503, "\"stuck\"");
    for (int i = 0; i < n; i++) ptrace(PTRACE_DETACH, stopped[i], NULL, NULL);
    CHECK(n == 0 || (stuck && comes_to_say(&d, 200, "\"ok\"")));
    daemon_stop(&d);
    if (n == 0) SKIP("no thread may be stopped here (ptrace)");
}

/* ---- socket activation ---- */

enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 }; /* not in Debian 12's headers */

static int listen_somewhere(uint32_t address, int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BUG_ON(bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 16) ||
           getsockname(fd, (struct sockaddr *)&at, &n));
    *port = ntohs(at.sin_port);
    return fd;
}

/* What a service manager does: the socket as descriptor 3, the variables, exec. deny_exec: no memory may become
 * executable, as under MemoryDenyWriteExecute. */
static pid_t activate(int fd, const char *options, bool deny_exec) {
    static const char script[] =
        "export LISTEN_PID=$$ LISTEN_FDS=1; exec ${BUILD:-build}/noised --threads 1 --model %s %s";
    const char *command = test_text(script, test_checkpoint(CHECKPOINT_SMALL), options);
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid > 0) return pid;
    if (deny_exec) prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0); /* kernels before 6.3 do not know it */
    if (!getenv("TEST_DAEMON_LOG") && (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)))
        _exit(127);
    if (dup2(fd, 3) != 3 || fcntl(3, F_SETFD, 0)) _exit(127); /* fd may be 3 */
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static bool wait_ready(const Daemon *d) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(5000)) {
        Answer a = http_get(d, "/health");
        bool ready = a.status == 200;
        if (ready) return true;
    }
    return false;
}

TEST(systemd_socket_activation) {
    Daemon d = {0};
    int fd = listen_somewhere(INADDR_LOOPBACK, &d.port);
    for (int i = 0; i < 2; i++) {
        int early = raw_completion(&d, "{\"max_tokens\":1}"); /* before anybody accepts */
        d.pid = activate(fd, "", i == 1);
        int port = d.port;
        CHECK_MSG(raw_expect(early, "text_completion"), "run %d: no answer", i);
        CHECK(wait_ready(&d));
        Answer a = http_post(&d, "/tokenize", "{\"prompt\":\"The river runs below the mill\"}");
        CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
        close(early);
        CHECK(daemon_stop(&d) == 0);
        d.port = port; /* the manager still holds the socket: the next one goes on with it */
    }
    close(fd);
}

static int end_of(pid_t pid) {
    int status;
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(2000))
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

TEST(systemd_socket_refused) {
    int port, open_to_all = listen_somewhere(INADDR_ANY, &port), pipes[2];
    CHECK(end_of(activate(open_to_all, "", false)) == 2); /* needs a key or --insecure, as --host would */
    BUG_ON(pipe2(pipes, O_CLOEXEC));
    CHECK(end_of(activate(pipes[0], "", false)) == 1);
    close(open_to_all);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(systemd_credential_is_the_key_file) {
    Daemon d;
    const char *dir = test_dir();
    const char *path = test_text("%s/noised.api-key", dir);
    test_write_file(path, "sesame-sesame-sesame\n", 21);
    chmod(path, 0400); /* as systemd makes them */
    setenv("CREDENTIALS_DIRECTORY", dir, 1);
    bool up = daemon_start(&d, CHECKPOINT_SMALL, NULL);
    unsetenv("CREDENTIALS_DIRECTORY");
    if (up) {
        Answer a = http_get(&d, "/v1/models");
        CHECK_MSG(a.status == 401, "%d", a.status);
        daemon_stop(&d);
    }
}
