/* noised-train on a terminal: what it draws fits the window. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Everything that a training of a few steps writes to a terminal of `columns`, malloc'ed. */
static char *train_on_terminal(int columns) {
    enum { MOST = 1 << 16 };
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    const char *build = getenv("BUILD");
    char program[512], *out = xcalloc(1, MOST);
    size_t n = 0;
    snprintf(program, sizeof program, "%s/noised-train", build ? build : "build");
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    BUG_ON(master < 0 || grantpt(master) || unlockpt(master));
    ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = (unsigned short)columns});
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        if (dup2(slave, STDOUT_FILENO) < 0) _exit(127);
        setenv("OMP_NUM_THREADS", "1", 1);
        execl(program, program, "pretrain", "--config", config, "--data", text, "--out", dir, "--steps", "12345",
              "--warmup", "0", "--batch", "1", "--eval-every", "0", (char *)NULL);
        _exit(127);
    }
    close(slave);
    while (n < MOST - 1) {
        ssize_t r = read(master, out + n, MOST - 1 - n); /* EIO once the other side is closed */
        if (r <= 0) break;
        n += (size_t)r;
        const char *first = strstr(out, "\r\033[K");
        if (first && strstr(first + 1, "\r\033[K")) kill(pid, SIGKILL); /* two drawings will do */
    }
    waitpid(pid, NULL, 0);
    close(master);
    return out;
}

static void check_width(int columns, const char *shown) {
    char *out = train_on_terminal(columns), *drawn = strstr(out, "\r\033[K");
    CHECK_MSG(drawn, "%s", out);
    if (drawn) {
        drawn += strlen("\r\033[K");
        size_t width = strcspn(drawn, "\r\n");
        CHECK_MSG(width < (size_t)columns && width > 6, "%zu of %d columns: %s", width, columns, drawn);
        drawn[width] = 0;
        CHECK_MSG(strstr(drawn, " left") && strstr(drawn, shown), "%d columns: \"%s\"", columns, drawn);
    }
    free(out);
}

TEST(trainer_terminal_bar_fits) {
    check_width(120, "[........................] step 1/12345  loss");
    check_width(80, "] step 1/12345  loss");
    check_width(40, "step 1/12345  loss");
    check_width(25, "step 1/12345  ");
}
