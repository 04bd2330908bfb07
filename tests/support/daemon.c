#include "tests/support/daemon.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/models.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- checkpoints ---- */

static const char corpus[] =
    "The river runs below the mill, and the miller counts the stones. Every stone was a word once, every word a stone; "
    "the river says them over and over until they are round. Gr\xC3\xBC\xC3\x9F"
    "e aus K\xC3\xB6ln \xE2\x80\x94 caf\xC3\xA9, "
    "\xE4\xBD\xA0\xE5\xA5\xBD, \xF0\x9F\x8C\x8A\xF0\x9F\x8C\x8A. The miller writes them down in a book, and the book "
    "is read "
    "by nobody but the river. He said: \"again\", she said: \"again\", and so the wheel went round again and again.\n";

static const Labels labels_of_kind[CHECKPOINT_KINDS] = {[CHECKPOINT_CLASSES] = {2, 8, "NEG\0POS"},
                                                        [CHECKPOINT_TAGS] = {4, 20, "O\0B-PER\0I-PER\0B-LOC"},
                                                        [CHECKPOINT_IMAGES] = {3, 6, "0\0001\0002"}};

static void give_task(Config *c, TaskKind task, TestCheckpoint kind) {
    c->task = task;
    c->causal = false;
    c->n_labels = labels_of_kind[kind].n;
}

enum { SHADES = 16 };

static int write_words(const char *dir, Err *err) {
    const char *words[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7",   "8",
                           "9", "10", "11", "12", "13", "14", "15", "[0]", "[1]"};
    Tokenizer *t = tokenizer_of_words(words, COUNTOF(words), err);
    int rc = t ? tokenizer_json_save(t, test_text("%s/tokenizer.json", dir), err) : -1;
    tokenizer_free(t);
    return rc;
}

static void make_pixels(Config *c) {
    c->vocab_size = SHADES + 2;
    c->max_positions = 25;
    c->position = POSITION_ROPE2D;
    c->input.height = 4;
    c->input.width = 6;
    c->bos_token_id = c->eos_token_id = -1;
}

/* A cache of 64 MiB holds the longest answer, and no text ends by itself. */
static void make_slow(Config *c) {
    int less = SANITIZED ? 2 : 1; /* what is slow there is the build */
    c->hidden_size = 256 / less;
    c->n_layers = 8 / less;
    c->n_heads = c->n_kv_heads = 1;
    c->max_positions = 1 << 16;
    c->position = POSITION_ROPE;
    c->mlp.width = 1536 / less;
}

static Config config_of(TestCheckpoint kind) {
    Config c = test_config(attention_kind_find("symmetric"));
    c.vocab_size = TEST_VOCAB;
    c.hidden_size = 32;
    c.head_dim = 16;
    c.max_positions = 512;
    c.mlp.width = 64;
    if (kind == CHECKPOINT_SLOW) make_slow(&c);
    c.bos_token_id = TEST_EOS;
    c.eos_token_id = kind == CHECKPOINT_SLOW ? -1 : TEST_EOS;
    c.noise.scope = kind == CHECKPOINT_QUIET ? NOISE_NONE : NOISE_HEAD;
    if (kind == CHECKPOINT_CLASSES) give_task(&c, TASK_TEXT_CLASSIFICATION, kind);
    if (kind == CHECKPOINT_CLASSES) c.pool = POOL_MEAN;
    if (kind == CHECKPOINT_TAGS) give_task(&c, TASK_TOKEN_CLASSIFICATION, kind);
    if (kind == CHECKPOINT_MASKS) give_task(&c, TASK_FILL_MASK, kind);
    c.mask_token_id = kind == CHECKPOINT_MASKS ? 7 : c.mask_token_id;
    if (kind == CHECKPOINT_PIXELS) make_pixels(&c);
    if (kind != CHECKPOINT_IMAGES) return c;
    give_task(&c, TASK_IMAGE_CLASSIFICATION, kind);
    c.pool = POOL_FIRST;
    c.input.kind = INPUT_PATCHES;
    c.input.height = 4;
    c.input.width = 6;
    c.input.channels = 1;
    c.input.patch = 2;
    c.vocab_size = 0;
    c.bos_token_id = c.eos_token_id = -1;
    return c;
}

/* Noise strong enough that another seed writes another text. */
static void amplify_noise(TestModel *t) {
    ParamSet *ps = &t->model.params;
    for (int i = 0; i < ps->n; i++) {
        const Weight *w = ps->params[i].weight;
        for (size_t k = 0; strstr(w->name, "noise.sigma") && k < weight_count(w); k++) weight_f32(w)[k] = 2;
    }
}

static int write_tokenizer(const char *dir, Err *err) {
    BpeText text = {.data = corpus, .n = sizeof corpus - 1};
    BpeCorpus all = {.texts = &text, .n = 1};
    Tokenizer *t;
    if (bpe_train(&t, &all, TEST_PIECES, err)) return -1;
    int rc = tokenizer_json_save(t, test_text("%s/tokenizer.json", dir), err);
    tokenizer_free(t);
    return rc;
}

static int write_vocabulary(TestCheckpoint kind, const char *dir, Err *err) {
    if (kind == CHECKPOINT_IMAGES) return 0;
    return kind == CHECKPOINT_PIXELS ? write_words(dir, err) : write_tokenizer(dir, err);
}

static bool write_checkpoint(const char *dir, const Config *c, Dtype dtype, TestCheckpoint kind, uint64_t seed) {
    TestModel t;
    Err err;
    if (!test_model_init(&t, c, seed)) return false;
    amplify_noise(&t);
    int rc = checkpoint_save(dir, &t.model, &labels_of_kind[kind], dtype, 0, &err) || write_vocabulary(kind, dir, &err)
                 ? -1
                 : 0;
    test_model_free(&t);
    if (rc) test_fail(__FILE__, __LINE__, "test checkpoint: %s", err.msg);
    return rc == 0;
}

bool test_checkpoint_write(const char *dir, TestCheckpoint kind, uint64_t seed) {
    Config c = config_of(kind);
    return write_checkpoint(dir, &c, DTYPE_F32, kind, seed);
}

bool test_checkpoint_write_as(const char *dir, const Config *c, Dtype dtype, uint64_t seed) {
    return write_checkpoint(dir, c, dtype, CHECKPOINT_SMALL, seed);
}

const char *test_checkpoint(TestCheckpoint kind) {
    static char *made[CHECKPOINT_KINDS];
    if (made[kind]) return made[kind];
    const char *dir = test_text("%s/tiny", test_dir());
    if (!test_checkpoint_write(dir, kind, 1)) return NULL;
    return made[kind] = xstrdup(dir);
}

/* ---- the process ---- */

enum { MOST_ARGUMENTS = 64 };

static const char *program(void) {
    static char path[512];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/noised", build ? build : "build");
    return path;
}

static const char *log_path = "/dev/null";

void keys_write(char path[256], const char *dir, const char *keys) {
    snprintf(path, 256, "%s/keys", dir);
    test_write_file(path, keys, strlen(keys));
    BUG_ON(chmod(path, 0600));
}

void daemon_log_to(const char *path) { log_path = path ? path : "/dev/null"; }

int daemon_log_says(const char *path, const char *what, int often) {
    int n = 0;
    for (double t0 = now_seconds(); n < often && now_seconds() - t0 < PATIENCE; usleep(1000)) {
        char *text = test_read_file(path, NULL);
        n = text ? text_count(text, what) : 0;
        free(text);
    }
    return n;
}

/* Forks and executes; the chosen descriptor of the child ends up in the pipe that is returned. */
static FILE *spawn(pid_t *pid, char *const *arguments, int child_fd) {
    int ends[2];
    BUG_ON(pipe2(ends, 0));
    fflush(stdout);
    *pid = fork();
    BUG_ON(*pid < 0);
    if (*pid == 0) {
        dup2(ends[1], child_fd);
        FILE *other = child_fd == STDOUT_FILENO ? stderr : stdout;
        const char *path = other == stderr ? log_path : "/dev/null";
        if (!getenv("TEST_DAEMON_LOG") && !freopen(path, "a", other)) _exit(127);
        close(ends[0]);
        close(ends[1]);
        execv(arguments[0], arguments);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

static void split(char **arguments, int *n, char *options) {
    char *rest;
    for (char *a = strtok_r(options, " ", &rest); a; a = strtok_r(NULL, " ", &rest)) {
        BUG_ON(*n >= MOST_ARGUMENTS - 1);
        arguments[(*n)++] = a;
    }
    arguments[*n] = NULL;
}

static int wait_for_end(pid_t pid) {
    int status;
    for (double until = now_seconds() + PATIENCE; now_seconds() < until; usleep(2000))
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

int daemon_run(const char *options, char **errors) {
    enum { SHOWN = 4096 };
    char *copy = xstrdup(options), *name = xstrdup(program()), *arguments[MOST_ARGUMENTS] = {name};
    int n = 1;
    pid_t pid;
    split(arguments, &n, copy);
    FILE *f = spawn(&pid, arguments, STDERR_FILENO);
    char *text = xcalloc(1, SHOWN);
    BUG_ON(fread(text, 1, SHOWN - 1, f) > SHOWN);
    fclose(f);
    int status = wait_for_end(pid);
    free(copy);
    free(name);
    if (errors)
        *errors = text;
    else
        free(text);
    return status;
}

static bool is_ready(const Daemon *d) {
    const char *options = test_text("--probe http://127.0.0.1:%d/health", d->port);
    for (double until = now_seconds() + PATIENCE; now_seconds() < until; usleep(10000))
        if (daemon_run(options, NULL) == 0) return true;
    return false;
}

bool daemon_start(Daemon *d, TestCheckpoint kind, const char *options) {
    return daemon_start_at(d, test_checkpoint(kind), options);
}

bool daemon_start_at(Daemon *d, const char *dir, const char *options) {
    if (!daemon_listen_at(d, dir, options)) return false;
    if (is_ready(d)) return true;
    test_fail(__FILE__, __LINE__, "%s does not get ready", program());
    kill(d->pid, SIGKILL);
    daemon_stop(d);
    return false;
}

bool daemon_listen_at(Daemon *d, const char *dir, const char *options) {
    char line[256] = "", *copy = xstrdup(options ? options : ""), *name = xstrdup(program());
    *d = (Daemon){0};
    char *model = dir ? xstrdup(dir) : NULL, *arguments[MOST_ARGUMENTS] = {name, "--model", model};
    int n = 3;
    if (!strstr(copy, "--port ")) {
        arguments[n++] = "--port";
        arguments[n++] = "0";
    }
    if (!strstr(copy, "--threads")) {
        arguments[n++] = "--threads";
        arguments[n++] = "1";
    }
    /* The largest batch, which warms a daemon up, takes a sanitizer seconds. */
    if (SANITIZED && !strstr(copy, "--prefill-chunk ")) {
        arguments[n++] = "--prefill-chunk";
        arguments[n++] = "32";
    }
    char hosts[] = "--allowed-host x a u"; /* what bare requests of the tests say */
    if (!strstr(copy, "--host ")) split(arguments, &n, hosts);
    split(arguments, &n, copy);
    if (dir) d->output = spawn(&d->pid, arguments, STDOUT_FILENO);
    struct pollfd p = {.fd = d->output ? fileno(d->output) : -1, .events = POLLIN};
    bool up = dir && poll(&p, 1, 1000 * PATIENCE) == 1 && fgets(line, sizeof line, d->output);
    const char *port = strrchr(line, ':');
    d->port = port ? atoi(port + 1) : 0;
    free(model);
    free(name);
    free(copy);
    if (up && d->port > 0) return true;
    test_fail(__FILE__, __LINE__, "%s does not start: \"%s\"", program(), line);
    if (d->pid) kill(d->pid, SIGKILL);
    daemon_stop(d);
    return false;
}

int daemon_stop(Daemon *d) {
    if (!d->pid) return -1;
    kill(d->pid, SIGTERM);
    int status = wait_for_end(d->pid);
    if (status != 0) test_fail(__FILE__, __LINE__, "noised ended with status %d", status);
    if (d->output) fclose(d->output);
    *d = (Daemon){0};
    return status;
}

double daemon_cpu_seconds(const Daemon *d) {
    clockid_t clock;
    struct timespec t = {0};
    CHECK(clock_getcpuclockid(d->pid, &clock) == 0 && clock_gettime(clock, &t) == 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int daemon_files(const Daemon *d) {
    int n = 0;
    DIR *dir = opendir(test_text("/proc/%d/fd", (int)d->pid));
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}
