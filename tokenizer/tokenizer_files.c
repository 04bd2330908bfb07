#include "tokenizer/tokenizer_files.h"

#include "base/files.h"
#include "base/err.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "tokenizer/chat_files.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 20, VOCAB_DEPTH = 1, VOCAB_VALUES = 1 << 22 };

/* What a tokenizer.json says around the vocabulary and the merges. */
static const char frame[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\"},\"added_tokens\":[]}";
static const char end_of_text[] =
    "{\"content\":\"<|endoftext|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
    "\"special\":true}";

/* One merge a line, behind a line that says "#version: 0.2". */
static cJSON *read_merges(const char *path, Err *err) {
    size_t n;
    char *text = file_read(path, FILE_MAX, &n, err), *rest = text, *line;
    if (!text) return NULL;
    if (strlen(text) != n) {
        err_set(err, "%s: NUL at byte %zu", path, strlen(text));
        free(text);
        return NULL;
    }
    cJSON *merges = cJSON_CreateArray();
    while ((line = strsep(&rest, "\n"))) {
        line[strcspn(line, "\r")] = 0;
        if (*line && (line != text || strncmp(line, "#version", 8)))
            cJSON_AddItemToArray(merges, cJSON_CreateString(line));
    }
    free(text);
    return merges;
}

/* The same tokenizer as the text of a tokenizer.json; takes both trees. */
static char *print_tokenizer(cJSON *vocab, cJSON *merges) {
    cJSON *root = cJSON_Parse(frame), *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(vocab, "<|endoftext|>");
    if (id) {
        cJSON *token = cJSON_Parse(end_of_text);
        cJSON_AddItemToObject(token, "id", cJSON_Duplicate(id, true));
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(root, "added_tokens"), token);
    }
    cJSON_AddItemToObject(model, "vocab", vocab);
    cJSON_AddItemToObject(model, "merges", merges);
    char *text = cJSON_PrintUnformatted(root);
    BUG_ON(!text);
    cJSON_Delete(root);
    return text;
}

/* What else tokenizer_config.json adds, as that of Qwen's models does, such files cannot say. */
static int check_added(const char *dir, const cJSON *vocab, Err *err) {
    cJSON *config = chat_tokenizer_config(dir, err);
    const cJSON *token;
    int rc = config || !*err->msg ? 0 : -1;
    cJSON_ArrayForEach(token, json_field(config, "added_tokens_decoder")) {
        const char *text = cJSON_GetStringValue(json_field(token, "content"));
        if (rc == 0 && text && !json_field(vocab, text))
            rc = err_set(err,
                         "%s: tokenizer_config.json adds \"%.60s\", which vocab.json lacks: a tokenizer.json is needed",
                         dir, text);
    }
    cJSON_Delete(config);
    return rc;
}

static int load_pair(Tokenizer **out, const char *dir, const char *vocab_path, const char *merges_path, Err *err) {
    Err why;
    cJSON *vocab = json_load(vocab_path, FILE_MAX, VOCAB_DEPTH, VOCAB_VALUES, err),
          *merges = vocab ? read_merges(merges_path, err) : NULL;
    if (!merges) {
        cJSON_Delete(vocab);
        return -1;
    }
    if (check_added(dir, vocab, err)) {
        cJSON_Delete(vocab);
        cJSON_Delete(merges);
        return -1;
    }
    char *text = print_tokenizer(vocab, merges);
    int rc = tokenizer_json_parse(out, text, strlen(text), &why);
    cJSON_free(text);
    return rc ? err_set(err, "%s: vocab.json and merges.txt: %s", dir, why.msg) : 0;
}

int tokenizer_files_load(Tokenizer **out, const char *dir, Err *err) {
    char path[PATH_BYTES], vocab[PATH_BYTES], merges[PATH_BYTES];
    *out = NULL;
    if (path_join(path, dir, "tokenizer.json", err) || path_join(vocab, dir, "vocab.json", err) ||
        path_join(merges, dir, "merges.txt", err))
        return -1;
    if (file_is_there(path))
        return tokenizer_json_load(out, path, err) || tokenizer_config_apply(out, dir, err) ? -1 : 0;
    if (!file_is_there(vocab) && !file_is_there(merges)) return 0;
    if (path_join(path, dir, "added_tokens.json", err)) return -1;
    if (file_is_there(path))
        return err_set(err, "%s: only a tokenizer.json can add tokens to vocab.json and merges.txt", path);
    return load_pair(out, dir, vocab, merges, err);
}
