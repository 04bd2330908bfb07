/* How conversations are written. The first byte says what the rest is:
 *     even    a template's source, or the digits of a known one's place in the list, 0xFF, what a request says: an
 * object of JSON with messages, tools and variables, or else what a user says odd     a folder's chat_template.jinja
 * 0xFF tokenizer_config.json 0xFF generation_config.json What a template writes is valid text of which every byte has a
 * mark, the same each time; whatever came from the request has not the template's. What it refuses it has words for. */
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/chat_templates.h"
#include "tokenizer/jinja/jinja.h"
#include "weights/chat.h"
#include "weights/generation.h"

#include <stdlib.h>
#include <string.h>

/* U+E000, of no source: a template could only write it as an escape. */
static const char mine[] = "\xEE\x80\x80";

static char *source_of(FuzzInput *in) {
    Buffer names = {0};
    size_t n;
    char *source = fuzz_until(in, 0xFF, &n), *rest;
    if (n == 0 || n > 2 || strspn(source, "0123456789") < n) return source;
    int place = atoi(source);
    chat_template_names(&names);
    buffer_append(&names, "", 1);
    char *name = strtok_r(names.data, ", ", &rest);
    for (; place > 0 && *rest; place--) name = strtok_r(NULL, ", ", &rest);
    free(source);
    source = xstrdup(chat_template_named(name)->source);
    buffer_free(&names);
    return source;
}

/* What comes last in every text of the request. */
static void sign_texts(cJSON *value) {
    for (cJSON *item = value ? value->child : NULL; item; item = item->next) {
        sign_texts(item);
        if (!cJSON_IsString(item) || (item->string && !strcmp(item->string, "role"))) continue;
        Buffer text = {0};
        buffer_text(&text, item->valuestring);
        buffer_text(&text, mine);
        buffer_append(&text, "", 1);
        cJSON_SetValuestring(item, text.data);
        buffer_free(&text);
    }
}

static cJSON *request_of(FuzzInput *in) {
    Err err;
    size_t n;
    char *rest = fuzz_rest(in, &n);
    cJSON *read = json_parse(rest, n, 32, 4096, &err);
    if (!cJSON_IsObject(read)) {
        cJSON_Delete(read);
        read = cJSON_Parse("{\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":"
                           "\"b\"},{\"role\":\"user\",\"content\":\"c\",\"name\":\"d\"}]}");
        rest[utf8_valid_prefix(rest, strlen(rest))] = 0;
        cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetArrayItem(json_field(read, "messages"), 0), "content",
                                               cJSON_CreateString(rest));
    }
    sign_texts(read);
    free(rest);
    return read;
}

static void check_written(const Buffer *text, const Buffer *marks, bool escapes) {
    CHECK(text->n == marks->n && !text->failed && !marks->failed);
    CHECK_MSG(text->n == 0 || utf8_is_valid(text->data, text->n), "writes what is no UTF-8: %.*s", (int)text->n,
              text->data);
    for (size_t i = 0; i < text->n; i++) CHECK(marks->data[i] <= MARK_CUT);
    for (const char *at = text->data; !escapes && text->n; at++) {
        at = memmem(at, text->n - (size_t)(at - text->data), mine, strlen(mine));
        if (!at) break;
        size_t i = (size_t)(at - text->data);
        CHECK_MSG(marks->data[i] && marks->data[i + 1] && marks->data[i + 2], "forged: %.*s", (int)text->n, text->data);
    }
}

static void check_render(FuzzInput *in) {
    char *source = source_of(in);
    cJSON *read = request_of(in);
    const cJSON *messages = json_field(read, "messages");
    Err err = {""};
    ChatManner manner = {"<s>", "</s>", .takes_texts = true, .takes_parts = strlen(source) & 1};
    ChatRequest request = {.messages = cJSON_IsArray(messages) ? messages : NULL,
                           .tools = json_field(read, "tools"),
                           .variables = json_field(read, "variables"),
                           .end = (ChatEnd)(strlen(source) % 3)};
    ChatFill fill = {&manner, &request};
    Jinja *program = jinja_parse(source, strlen(source), &err);
    CHECK(program ? true : strstr(err.msg, "line") != NULL);
    Buffer text[2] = {{0}}, marks[2] = {{0}};
    int rc[2] = {-1, -1};
    for (int i = 0; i < 2 && program; i++) {
        rc[i] = jinja_run(program, chat_fill, &fill, &text[i], &marks[i], &err);
        if (rc[i] == 0) check_written(&text[i], &marks[i], strchr(source, '\\') || strstr(source, mine));
    }
    CHECK(rc[0] == rc[1] && text[0].n == text[1].n && (!text[0].n || !memcmp(text[0].data, text[1].data, text[0].n)));
    for (int i = 0; i < 2; i++) buffer_free(&text[i]), buffer_free(&marks[i]);
    jinja_free(program);
    cJSON_Delete(read);
    free(source);
}

static void check_folder(FuzzInput *in) {
    static const char *const names[] = {"chat_template.jinja", "tokenizer_config.json", GENERATION_FILE};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        size_t n;
        char *text = fuzz_until(in, 0xFF, &n);
        if (n)
            fuzz_file(names[i], text, n);
        else
            fuzz_remove(names[i]);
        free(text);
    }
    Config c = {.vocab_size = 100, .causal = true, .max_positions = 16, .eos_token_id = 1};
    Tokenizer *none = tokenizer_ids_only();
    Err err = {""};
    Chat chat;
    CHECK(chat_open(&chat, fuzz_folder(), NULL, &c, none, &err) == 0);
    CHECK(chat.program ? chat.source && chat.name[0] && (chat.manner.takes_texts || chat.manner.takes_parts)
                       : chat.why[0]);
    chat_close(&chat);
    tokenizer_free(none);
    Generation g;
    Sha256 hash;
    char hex[65];
    sha256_init(&hash);
    int rc = generation_open(&g, &c, &hash, fuzz_folder(), &err);
    sha256_hex(&hash, hex);
    if (rc) {
        CHECK(err.msg[0]);
        return;
    }
    for (int i = 0; i < GENERATION_VALUES; i++) {
        const GenerationKey *k = &generation_keys[i];
        CHECK_MSG(g.values[i] == k->fallback || (g.values[i] >= k->low && g.values[i] <= k->high), "%s is %g", k->name,
                  g.values[i]);
    }
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    if (fuzz_byte(&in) & 1)
        check_folder(&in);
    else
        check_render(&in);
}

TEST(fuzz_chat) { fuzz_run("chat", look); }
