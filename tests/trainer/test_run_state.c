/* trainer_state.json when memory runs out while it is written: what is there is whole, the old one or the new one. */
#include "base/memory.h"
#include "tests/support/test.h"
#include "trainer/run_state.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITTEN = 10, ALL_WAS_THERE, REFUSED }; /* no status that a process has which gives up */

/* Allocation n fails. An x-function that fails ends the process, as it would end the trainer. */
static int save_without(const RunState *s, const char *dir, int64_t n) {
    Err err;
    fflush(stdout);
    pid_t child = fork();
    BUG_ON(child < 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(REFUSED);
        memory_fail(n, false);
        int rc = run_state_save(s, dir, 2, &err);
        bool met = memory_fail(-1, false) > n;
        _exit(rc ? REFUSED : met ? WRITTEN : ALL_WAS_THERE);
    }
    int status;
    BUG_ON(waitpid(child, &status, 0) != child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

TEST(run_state_is_whole_without_memory) {
    const char *dir = test_dir();
    Err err = {""};
    cJSON *settings = cJSON_Parse("{\"lr\":\"0.001\",\"data\":[\"a.txt\",\"b.txt\"],\"seed\":\"7\"}");
    RunState s = {.settings = settings, .tokenizer_hash = "0123", .arithmetic = "common"};
    memset(s.data_hash, 'a', sizeof s.data_hash - 1);
    REQUIRE(preset_config(&s.config, "mha-nano", NULL) == 0);
    CHECK_MSG(run_state_save(&s, dir, 1, &err) == 0, "%s", err.msg);
    int refused = 0;
    for (int64_t n = 0, end = 0; !end; n++) {
        RunState read;
        int how = save_without(&s, dir, n);
        refused += how == REFUSED;
        end = how == ALL_WAS_THERE;
        bool whole = run_state_load(&read, dir, &err) == 0;
        CHECK_MSG(whole, "allocation %lld: %s", (long long)n, err.msg);
        if (!whole) break;
        CHECK_MSG(cJSON_Compare(read.settings, s.settings, true) && read.tokenizer_hash && read.arithmetic &&
                      !strcmp(read.data_hash, s.data_hash),
                  "allocation %lld: something is missing", (long long)n);
        run_state_free(&read);
    }
    CHECK_MSG(refused > 50, "only %d allocations failed", refused);
    cJSON_Delete(settings);
}
