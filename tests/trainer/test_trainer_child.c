#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sha256.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 96 };

char *trainer_text(size_t n) {
    static const char *const words[] = {"the", "sea", "whale", "and", "a", "ship", "sailed", "over",  "cold", "water",
                                        "in",  "of",  "night", "we",  "I", "saw",  "deep",   "white", "wind", "Ahab"};
    char *text = xmalloc(n + 16);
    Draws d = draws_open(7, DRAW_TEST, 0);
    size_t used = 0;
    while (used < n) {
        const char *word = words[draw_below(&d, COUNTOF(words))];
        used += (size_t)sprintf(text + used, "%s%c", word, draw_below(&d, 9) ? ' ' : '\n');
    }
    text[n] = 0;
    return text;
}

static const char *write_new(const char *name, const char *text, size_t n) {
    const char *dir = test_dir(), *path = test_text("%s/%s", dir, name);
    test_write_file(path, text, n);
    return path;
}

const char *trainer_text_file(size_t n) {
    char *text = trainer_text(n);
    const char *path = write_new("text.txt", text, n);
    free(text);
    return path;
}

const char *trainer_config_file(void) {
    static const char config[] =
        "{\"model_type\":\"noised\",\"vocab_size\":300,\"hidden_size\":16,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"max_position_embeddings\":32,"
        "\"norm\":\"layernorm\",\"norm_eps\":1e-5,\"position\":\"learned\",\"rope_theta\":10000,\"bias\":false,"
        "\"tie_word_embeddings\":true,\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":32},"
        "\"attention\":{\"kind\":\"symmetric\"},\"noise\":{\"scope\":\"head\",\"density\":\"gaussian\"},"
        "\"bos_token_id\":0,\"eos_token_id\":0,\"torch_dtype\":\"float32\"}";
    return write_new("config.json", config, strlen(config));
}

/* ---- the child ---- */

static void program_path(char path[512], const char *name) {
    const char *build = getenv("BUILD");
    snprintf(path, 512, "%s/%s", build ? build : "build", name);
}

/* The words of `line`, of which the first is the program. */
static pid_t start_line(const char *line, const char *output) {
    char *copy = xstrdup(line), *argv[MAX_WORDS], *rest = NULL;
    int n = 0;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        BUG_ON(n == MAX_WORDS - 1);
        argv[n++] = w;
    }
    argv[n] = NULL;
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(126);
        setenv("OMP_NUM_THREADS", "1", 1);
        execvp(argv[0], argv);
        _exit(127);
    }
    free(copy);
    return pid;
}

static pid_t start(const char *args, const char *output) {
    char program[512];
    program_path(program, "noised-train");
    return start_line(test_text("%s %s", program, args), output);
}

ChildResult trainer_finish(pid_t pid, const char *output) {
    int status;
    BUG_ON(waitpid(pid, &status, 0) != pid);
    ChildResult r = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                     .output = test_read_file(output, NULL)};
    if (!r.output) r.output = xstrdup("");
    unlink(output);
    return r;
}

static const char *output_path(void) { return write_new("output", "", 0); }

ChildResult trainer_run(const char *args) {
    const char *output = output_path();
    return trainer_finish(start(args, output), output);
}

void trainer_done(const char *args) {
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == 0, "%s: %s", args, r.output);
    free(r.output);
}

static void ranks_line(char line[4096], int n, const char *args) {
    char program[512];
    program_path(program, "noised-train-mpi");
    snprintf(line, 4096, TRAINER_MPIRUN " -np %d %s %s", n, program, args);
}

const char *trainer_ranks_missing(void) {
    char program[512];
    program_path(program, "noised-train-mpi");
    if (access(program, X_OK)) return "noised-train-mpi is not built (make mpi)";
    return system("mpirun --version >/dev/null 2>&1") ? "mpirun is missing (package openmpi-bin)" : NULL;
}

ChildResult trainer_run_ranks(int n, const char *args) {
    const char *output = output_path();
    char line[4096];
    ranks_line(line, n, args);
    return trainer_finish(start_line(line, output), output);
}

pid_t trainer_start_ranks(int n, const char *args, const char **output) {
    char line[4096];
    ranks_line(line, n, args);
    return trainer_start_line(line, output);
}

pid_t trainer_start_line(const char *line, const char **output) { return start_line(line, *output = output_path()); }

ChildResult trainer_run_killed(const char *args, double delay, int signal_number) {
    const char *output = output_path();
    pid_t pid = start(args, output);
    clock_sleep(delay);
    kill(pid, signal_number); /* a child that has ended is a zombie until trainer_finish() */
    return trainer_finish(pid, output);
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

ChildResult trainer_run_stopped(const char *args, const char *path, long bytes, int signal_number) {
    const char *output = output_path();
    pid_t pid = start(args, output);
    struct stat st;
    while (!has_ended(pid) && !(stat(path, &st) == 0 && st.st_size >= bytes)) clock_sleep(0.0003);
    kill(pid, signal_number);
    return trainer_finish(pid, output);
}

static bool says(const char *path, const char *text) {
    char *said = test_read_file(path, NULL);
    bool yes = said && strstr(said, text);
    free(said);
    return yes;
}

ChildResult trainer_run_stopped_at(const char *args, const char *text, int signal_number) {
    const char *output = output_path();
    pid_t pid = start(args, output);
    while (!has_ended(pid) && !says(output, text)) clock_sleep(0.0003);
    kill(pid, signal_number);
    return trainer_finish(pid, output);
}

void trainer_hash_file(const char *dir, const char *name, char hex[65]) {
    const char *path = test_text("%s/%s", dir, name);
    size_t n = 0;
    char *data = test_read_file(path, &n);
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, data ? data : "", n);
    sha256_hex(&hash, hex);
    if (!data) test_fail(__FILE__, __LINE__, "%s cannot be read", path);
    free(data);
}
