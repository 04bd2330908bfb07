#include "tokenizer/chat_files.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/json/json_reader.h"

#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_BYTES = 1 << 20, CONFIG_BYTES = 1 << 26, CONFIG_DEPTH = 64, CONFIG_VALUES = 1 << 22 };

static cJSON *load_config(const char *path, Err *err) {
    return json_load(path, CONFIG_BYTES, CONFIG_DEPTH, CONFIG_VALUES, err);
}

cJSON *chat_tokenizer_config(const char *dir, Err *err) {
    char path[PATH_BYTES];
    err->msg[0] = '\0';
    if (path_join(path, dir, TOKENIZER_CONFIG_FILE, err) || !file_is_there(path)) return NULL;
    return load_config(path, err);
}

const char *chat_token_text(const cJSON *config, const char *key) {
    const cJSON *token = json_field(config, key);
    return cJSON_GetStringValue(cJSON_IsObject(token) ? json_field(token, "content") : token);
}

static const char *find_default(const cJSON *config) {
    const cJSON *given = json_field(config, "chat_template"), *one;
    if (cJSON_IsString(given)) return given->valuestring;
    cJSON_ArrayForEach(one, given) {
        const char *name = cJSON_GetStringValue(json_field(one, "name"));
        if (name && !strcmp(name, "default")) return cJSON_GetStringValue(json_field(one, "template"));
    }
    return NULL;
}

/* Frees config. */
static char *take_default(cJSON *config) {
    const char *text = find_default(config);
    char *copy = text ? xstrdup(text) : NULL;
    cJSON_Delete(config);
    return copy;
}

char *chat_template_of_folder(const char *dir, Err *err) {
    char path[PATH_BYTES];
    size_t n;
    err->msg[0] = '\0';
    if (path_join(path, dir, CHAT_TEMPLATE_FILE, err)) return NULL;
    if (file_is_there(path)) return file_read(path, TEMPLATE_BYTES, &n, err);
    return take_default(chat_tokenizer_config(dir, err));
}

char *chat_template_of_file(const char *path, Err *err) {
    size_t n;
    if (!text_ends(path, ".json")) return file_read(path, TEMPLATE_BYTES, &n, err);
    cJSON *config = load_config(path, err);
    char *text = config ? take_default(config) : NULL;
    if (config && !text) err_set(err, "%s has no chat_template", path);
    return text;
}
