#include "tests/faults/trial.h"

#include "base/macros.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/trainer/test_trainer.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PRETRAIN                                                                                                       \
    "noised-train pretrain --config config.json --data text.txt --out run --resume --save-every 1 --threads 1 "
const Task tasks[TASKS] = {
    {"start", "true", PRETRAIN "--batch 1 --steps 2 --eval-every 1", "run", false},
    {"resume", PRETRAIN "--batch 1 --steps 1", PRETRAIN "--steps 2", "run", false},
    {"finetune", "true",
     "noised-train finetune --init model --train labels.jsonl --dev labels.jsonl --out run --resume --epochs 2 --batch "
     "4 "
     "--threads 1",
     "run", false},
    {"tokenizer", "true", "noised-train tokenizer --data text.txt --vocab-size 270 --out t.json", "t.json", true},
    {"quantize", "true", "noised-weights quantize model out", "out", true},
    {"import", "true", "noised-weights import model out", "out", true},
    {"verify", "true", "noised-weights verify model", "", true},
    {"eval", "true", "noised-train eval --model model --data text.txt", "", false},
    {"sample", "true",
     "noised-train sample --model model --prompt river --max-tokens 4 --seed 1 --noise-seed 2 --threads 1", "", false},
    {"batch", "true", "noised --model model --batch requests.jsonl --out results.jsonl --threads 1", "results.jsonl",
     false},
};

int trial_shell(const Trial *t, const char *before, const char *line) {
    int status = system(test_text("cd %s/trial && %s%s%s >../output 2>&1 </dev/null", t->dir, before,
                                  before && *before ? "/" : "", line));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *trial_output(const Trial *t) {
    char *text = test_read_file(test_text("%s/output", t->dir), NULL);
    return text ? text : xstrdup("");
}

static void add_file(Sha256 *sum, const char *name, const char *path) {
    size_t n;
    char *data = test_read_file(path, &n);
    sha256_add(sum, name, strlen(name) + 1);
    if (data) sha256_add(sum, data, n);
    free(data);
}

static void hash_result(const Trial *t, char hex[SHA256_HEX]) {
    char path[300];
    struct dirent **entries;
    Sha256 sum;
    sha256_init(&sum);
    if (*t->task->result)
        snprintf(path, sizeof path, "%s/trial/%s", t->dir, t->task->result);
    else
        snprintf(path, sizeof path, "%s/output", t->dir);
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) add_file(&sum, "", path);
    for (int i = 0; i < n; i++) {
        const char *file = test_text("%s/%s", path, entries[i]->d_name);
        struct stat st;
        bool plain = stat(file, &st) == 0 && S_ISREG(st.st_mode);
        if (plain && strcmp(entries[i]->d_name, "log.jsonl") && strcmp(entries[i]->d_name, "plot.svg"))
            add_file(&sum, entries[i]->d_name, file);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    sha256_hex(&sum, hex);
}

void trial_begin(const Trial *t) {
    CHECK(system(test_text("rm -rf %s/trial && cp -r %s/before %s/trial", t->dir, t->dir, t->dir)) == 0);
}

static void make_before(const Trial *t) {
    char command[1200], path[300];
    const char *text = trainer_text_file(3000), *config = trainer_config_file();
    snprintf(command, sizeof command,
             "mkdir %s/trial && cp -r %s %s/trial/model && cp %s %s/trial/text.txt && cp %s %s/trial", t->dir,
             test_checkpoint(CHECKPOINT_SMALL), t->dir, text, t->dir, config, t->dir);
    CHECK_MSG(system(command) == 0, "%s", command);
    snprintf(path, sizeof path, "%s/trial", t->dir);
    test_write_text(path, "labels.jsonl",
                    "{\"text\":\"the river\",\"label\":\"A\"}\n{\"text\":\"the mill\",\"label\":\"B\"}\n"
                    "{\"text\":\"a word\",\"label\":\"A\"}\n{\"text\":\"a stone\",\"label\":\"B\"}\n");
    test_write_text(
        path, "requests.jsonl",
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{\"prompt\":\"the river\"}}\n"
        "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/detokenize\",\"body\":{\"tokens\":[5,6]}}\n"
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{\"prompt\":\"the mill\"}}\n");
    CHECK(strcmp(t->task->before, "true") == 0 || trial_shell(t, t->build, t->task->before) == 0);
    snprintf(command, sizeof command, "cp -r %s/trial %s/before", t->dir, t->dir);
    CHECK(system(command) == 0);
}

void trial_check(const Trial *t, const char *when, const char *said) {
    char hex[SHA256_HEX];
    hash_result(t, hex);
    CHECK_MSG(!strcmp(hex, t->result), "%s, %s: the result is another\n%s", t->task->name, when, said);
    CHECK_MSG(system(test_text("! find %s/trial -name '*.tmp' | grep -q .", t->dir)) == 0,
              "%s, %s: a temporary file is left", t->task->name, when);
}

bool trial_is_done(const Trial *t) {
    char hex[SHA256_HEX];
    if (!*t->task->result) return false;
    hash_result(t, hex);
    return !strcmp(hex, t->result);
}

Trial trial_open(const Task *task) {
    const char *build = getenv("BUILD");
    Trial t = {.task = task, .dir = test_dir()};
    char *top = realpath(build ? build : "build", NULL);
    snprintf(t.build, sizeof t.build, "%s", top);
    free(top);
    snprintf(t.under, sizeof t.under, "timeout 60 env FAULT=%s/fault LD_PRELOAD=%s/fault.so %s", t.dir, t.build,
             t.build);
    t.fault = fault_file(t.dir);
    make_before(&t);
    trial_begin(&t);
    fault_set(t.fault, FAULT_CALLS, FAULT_ONCE, 0);
    int status = trial_shell(&t, t.under, task->command);
    char *said = trial_output(&t);
    CHECK_MSG(status == 0, "%s undisturbed: status %d\n%s", task->name, status, said);
    free(said);
    hash_result(&t, t.result);
    for (int i = 0; i < FAULT_CALLS; i++) t.count[i] = t.fault->counted[i];
    return t;
}

void trial_close(Trial *t) { munmap(t->fault, sizeof *t->fault); }

void trial_again(const Trial *t, const char *when) {
    if (trial_is_done(t)) return;
    int status = trial_shell(t, t->build, t->task->command);
    char *said = trial_output(t);
    CHECK_MSG(status == 0, "%s, again after %s: status %d\n%s", t->task->name, when, status, said);
    trial_check(t, when, said);
    free(said);
}
