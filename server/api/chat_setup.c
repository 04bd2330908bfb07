#include "base/files.h"
#include "base/memory.h"
#include "server/api/chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPLATE_BYTES = 1 << 20, CONFIG_BYTES = 1 << 26, CONFIG_DEPTH = 64, CONFIG_VALUES = 1 << 22 };

static const char remedy[] = "the option --chat-template NAME|FILE says which to use";

/* The text of a special token, malloc'ed; "" for none. */
static char *word(const Tokenizer *t, int id) {
    size_t n = 0;
    const char *piece = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    return strndup(piece ? piece : "", piece ? n : 0);
}

/* A string, or a list of named ones of which the default is ours. NULL when there is none. */
static const char *default_template(const cJSON *config) {
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(config, "chat_template"), *one;
    if (cJSON_IsString(given)) return given->valuestring;
    cJSON_ArrayForEach(one, given) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "name"));
        if (name && !strcmp(name, "default"))
            return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "template"));
    }
    return NULL;
}

cJSON *chat_tokenizer_config(const char *dir, Err *err) {
    char path[PATH_BYTES];
    err->msg[0] = '\0';
    if (path_join(path, dir, "tokenizer_config.json", err) || access(path, F_OK)) return NULL;
    return json_load(path, CONFIG_BYTES, CONFIG_DEPTH, CONFIG_VALUES, err);
}

/* malloc'ed; NULL with *err when a file there cannot be read, with an empty message when there is no template. */
static char *folder_template(const char *dir, Err *err) {
    char path[PATH_BYTES];
    size_t n;
    err->msg[0] = '\0';
    if (path_join(path, dir, "chat_template.jinja", err)) return NULL;
    if (access(path, F_OK) == 0) return file_read(path, TEMPLATE_BYTES, &n, err);
    cJSON *config = chat_tokenizer_config(dir, err);
    const char *text = default_template(config);
    char *copy = text ? xstrdup(text) : NULL;
    cJSON_Delete(config);
    return copy;
}

static void use_folder(Chat *chat, const char *dir) {
    Err err;
    chat->source = folder_template(dir, &err);
    chat->form = chat->source ? chat_template_recognise(chat->source) : NULL;
    if (err.msg[0])
        snprintf(chat->why, sizeof chat->why, "the model's chat template cannot be read (%.200s); %s", err.msg, remedy);
    else
        snprintf(chat->why, sizeof chat->why, "the model %s; %s",
                 chat->source ? "has a chat template that is none of the known ones" : "has no chat template", remedy);
}

static int use_option(Chat *chat, const char *option, Err *err) {
    size_t n;
    Err unreadable;
    chat->form = chat_template_named(option);
    if (chat->form) return 0;
    chat->source = file_read(option, TEMPLATE_BYTES, &n, &unreadable);
    chat->form = chat->source ? chat_template_recognise(chat->source) : NULL;
    if (!chat->form) {
        Buffer names = {0};
        chat_template_names(&names);
        err_set(err, "--chat-template %.200s: %s; the known ones are %.*s", option,
                chat->source ? "the file holds none of the known templates"
                             : "neither a known template nor a readable file",
                (int)names.n, names.data);
        buffer_free(&names);
    }
    return chat->form ? 0 : -1;
}

int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err) {
    int bos = tokenizer_bos(tokenizer);
    *chat = (Chat){0};
    if (option && use_option(chat, option, err)) return -1;
    if (!option) use_folder(chat, dir);
    chat->words.bos = word(tokenizer, bos >= 0 ? bos : config->bos_token_id);
    chat->words.eos = word(tokenizer, config->eos_token_id);
    return 0;
}

void chat_close(Chat *chat) {
    free(chat->source);
    free((char *)chat->words.bos);
    free((char *)chat->words.eos);
    *chat = (Chat){0};
}
