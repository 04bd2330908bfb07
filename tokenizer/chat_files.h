/* chat_files: where a checkpoint's folder says how conversations are written.
 *
 *     chat_template.jinja      the template, a Jinja program; it comes first
 *     tokenizer_config.json    "chat_template": the program as a string, or a list of {"name", "template"} of which the
 *                              one named "default" counts */
#ifndef NOISED_CHAT_FILES_H
#define NOISED_CHAT_FILES_H

#include "base/err.h"
#include "base/json/json.h"

#define CHAT_TEMPLATE_FILE "chat_template.jinja"
#define TOKENIZER_CONFIG_FILE "tokenizer_config.json"

/* The folder's Jinja program, malloc'ed; NULL when it has none, with an empty message, or when a file there cannot be
 * read. */
char *chat_template_of_folder(const char *dir, Err *err);

/* That of one file, which is either of the two; NULL with a message when it holds none. */
char *chat_template_of_file(const char *path, Err *err);

/* The folder's tokenizer_config.json; NULL as above. The caller frees. */
cJSON *chat_tokenizer_config(const char *dir, Err *err);
/* A token that it names, as a string or as an object with its content; NULL: it names none. */
const char *chat_token_text(const cJSON *config, const char *key);

#endif
