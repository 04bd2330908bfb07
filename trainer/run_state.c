#include "trainer/run_state.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "trainer/run_folder.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

enum { STATE_MAX = 1 << 20, STATE_DEPTH = 8, STATE_VALUES = 65536 };

cJSON *run_state_read(const char *dir, Err *err) {
    char path[PATH_BYTES];
    return path_join(path, dir, RUN_STATE, err) ? NULL : json_load(path, STATE_MAX, STATE_DEPTH, STATE_VALUES, err);
}

int run_json_write(cJSON *root, const char *dir, const char *name, Err *err) {
    char path[PATH_BYTES], *text = cJSON_Print(root);
    BUG_ON(!text);
    int rc = path_join(path, dir, name, err) ? -1 : file_write(path, text, strlen(text), err);
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}

int run_state_write(cJSON *root, const char *dir, Err *err) {
    if (run_json_write(root, dir, RUN_STATE, err)) return -1;
    run_settle(dir);
    return 0;
}

static int read_state(RunState *s, Err *err) {
    const cJSON *hash = json_field(s->root, "data_sha256"), *config = json_field(s->root, "config");
    s->settings = json_field(s->root, "settings");
    if (!cJSON_IsObject(s->settings) || !cJSON_IsObject(config)) return err_set(err, "settings or config is missing");
    if (!cJSON_IsString(hash) || strlen(hash->valuestring) != sizeof s->data_hash - 1)
        return err_set(err, "data_sha256 is missing or no sha256");
    snprintf(s->data_hash, sizeof s->data_hash, "%s", hash->valuestring);
    s->arithmetic = cJSON_GetStringValue(json_field(s->root, "arithmetic"));
    s->tokenizer_hash = cJSON_GetStringValue(json_field(s->root, "tokenizer_sha256"));
    char *text = cJSON_Print(config);
    BUG_ON(!text);
    int rc = config_json_parse(&s->config, NULL, text, strlen(text), err);
    cJSON_free(text);
    return rc;
}

int run_state_load(RunState *s, const char *dir, Err *err) {
    Err why;
    *s = (RunState){.root = run_state_read(dir, err)};
    if (!s->root) return -1;
    if (read_state(s, &why) == 0) return 0;
    run_state_free(s);
    return err_set(err, "%s/" RUN_STATE ": %s", dir, why.msg);
}

void run_state_free(RunState *s) {
    cJSON_Delete(s->root);
    *s = (RunState){0};
}

int run_state_save(const RunState *s, const char *dir, int64_t step, Err *err) {
    memory_ran_out(); /* forget what was before */
    cJSON *root = cJSON_CreateObject();
    char *config = config_json_print(&s->config, NULL);
    cJSON_AddNumberToObject(root, "step", (double)step);
    cJSON_AddStringToObject(root, "data_sha256", s->data_hash);
    if (s->tokenizer_hash) cJSON_AddStringToObject(root, "tokenizer_sha256", s->tokenizer_hash);
    if (s->arithmetic) cJSON_AddStringToObject(root, "arithmetic", s->arithmetic);
    cJSON_AddItemToObject(root, "config", cJSON_Parse(config));
    cJSON_AddItemToObject(root, "settings", cJSON_Duplicate(s->settings, true));
    free(config);
    if (!memory_ran_out()) return run_state_write(root, dir, err);
    cJSON_Delete(root);
    return err_set(err, "%s/" RUN_STATE ": no memory to write it", dir);
}
