#include "weights/chat.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "base/sha256.h"
#include "base/json/json_reader.h"
#include "tokenizer/chat_files.h"
#include "tokenizer/build.h"
#include "tokenizer/chat_templates.h"
#include "tokenizer/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

static const char remedy[] = "the option --chat-template NAME|FILE says which to use";

/* ---- writing ---- */

/* A text with its marks. */
typedef struct Written {
    Buffer text, marks;
} Written;

static void written_free(Written *x) {
    buffer_free(&x->text);
    buffer_free(&x->marks);
}

/* Where the mark begins that stands last; n: nowhere. */
static size_t cut_at(const Written *x) {
    const char *marks = x->marks.data;
    size_t at = x->marks.n;
    while (at && marks[at - 1] != MARK_CUT) at--;
    if (!at) return x->marks.n;
    while (at && marks[at - 1] == MARK_CUT) at--;
    return at;
}

static int write_marked(const Chat *chat, const ChatRequest *request, Written *x, Err *err) {
    ChatFill fill = {&chat->manner, request};
    if (jinja_run(chat->program, chat_fill, &fill, &x->text, &x->marks, err)) return -1;
    if (request->end != CHAT_UNFINISHED) return 0;
    size_t at = cut_at(x);
    if (at == x->text.n) return err_set(err, "the template does not write the last message as it is");
    x->text.n = x->marks.n = at;
    return 0;
}

int chat_write(const Chat *chat, const ChatRequest *request, Buffer *out, Err *err) {
    Written x = {0};
    int rc = write_marked(chat, request, &x, err);
    if (rc == 0) buffer_append(out, x.text.data, x.text.n);
    if (out->failed) rc = err_set(err, "no memory to write the conversation");
    written_free(&x);
    return rc;
}

int chat_encode(const Chat *chat, const ChatRequest *request, bool parse_special, const Tokenizer *tokenizer,
                TokenList *out, Err *err) {
    Written x = {0};
    int rc = write_marked(chat, request, &x, err);
    const char *marks = parse_special ? NULL : x.marks.data;
    if (rc == 0) rc = tokenizer_encode_marked(tokenizer, x.text.data, marks, chat->roles, x.text.n, true, out, err);
    written_free(&x);
    return rc;
}

/* ---- what a template takes ---- */

/* Writes a conversation that is spelt in JSON. */
static int try_out(const Chat *chat, const char *messages, ChatEnd end, Written *x) {
    Err err;
    cJSON *read = cJSON_Parse(messages);
    ChatRequest request = {.messages = read, .end = end};
    ChatFill fill = {&chat->manner, &request};
    int rc = read ? jinja_run(chat->program, chat_fill, &fill, &x->text, &x->marks, &err) : -1;
    cJSON_Delete(read);
    return rc;
}

/* Whether it writes the user's text, and of what is the user's nothing else: not the parts that hold it. */
static bool writes(const Chat *chat, const char *messages, const char *text) {
    Written x = {0};
    bool so = try_out(chat, messages, CHAT_OPENED, &x) == 0;
    size_t n = 0, length = strlen(text);
    for (size_t i = 0; so && i < x.text.n; i++)
        if (x.marks.data[i] == MARK_CONTENT) so = text[n % length] == x.text.data[i], n++;
    written_free(&x);
    return so && n >= length;
}

/* Whether it takes a message that calls a tool and has no content, and does not write the word for none. */
static bool takes_none(Chat *chat) {
    static const char call[] =
        "[{\"role\":\"user\",\"content\":\"zebra\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
        "\"quagga123\",\"type\":\"function\",\"function\":{\"name\":\"quagga\",\"arguments\":\"{}\"}}]}]";
    Written x = {0};
    chat->manner.takes_none = true;
    bool takes = try_out(chat, call, CHAT_CLOSED, &x) == 0 && x.text.n && !memmem(x.text.data, x.text.n, "None", 4);
    written_free(&x);
    return takes;
}

static void learn_contents(Chat *chat) {
    static const char texts[] = "[{\"role\":\"user\",\"content\":\"zebra\"}]",
                      parts[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"zebra\"}]}]";
    chat->manner.takes_texts = chat->manner.takes_parts = true; /* both as they come */
    bool takes_texts = writes(chat, texts, "zebra"), takes_parts = writes(chat, parts, "zebra");
    chat->manner.takes_texts = takes_texts || !takes_parts;
    chat->manner.takes_parts = takes_parts;
    chat->manner.takes_none = takes_none(chat);
    chat->takes_tools = jinja_mentions(chat->program, "tools");
    chat->writes_calls = strstr(chat->source, "tool_calls") != NULL;
    chat->manner.knows_developer = strstr(chat->source, "developer") != NULL;
}

static const char talk[] = "[{\"role\":\"user\",\"content\":\"zebra\"},{\"role\":\"assistant\",\"content\":"
                           "\"quagga\"},{\"role\":\"user\",\"content\":\"zebra\"}]";

/* A system's message, for templates that have a place for one, and turns of both. */
static void learn_roles(Chat *chat, const Tokenizer *tokenizer) {
    static const char *const talks[] = {
        "[{\"role\":\"system\",\"content\":\"zebra\"},{\"role\":\"user\",\"content\":\"zebra\"},"
        "{\"role\":\"assistant\",\"content\":\"quagga\"},{\"role\":\"user\",\"content\":\"zebra\"}]",
        talk};
    const TokenizerSpec *spec = tokenizer_spec(tokenizer);
    chat->roles = xcalloc((size_t)tokenizer_vocab_size(tokenizer), sizeof *chat->roles);
    for (size_t i = 0; i < COUNTOF(talks); i++) {
        Written x = {0};
        bool wrote = try_out(chat, talks[i], CHAT_CLOSED, &x) == 0;
        for (int k = 0; wrote && k < spec->n_added; k++) {
            const TokenText *text = &spec->added[k].text;
            if (memmem(x.text.data, x.text.n, text->data, text->n)) chat->roles[spec->added[k].id] = true;
        }
        written_free(&x);
    }
}

/* An answer ends with what the template writes behind one, up to what the user says next: with the special token there
 * when white space alone is in front of it, else with the text, less the white space at its end. */
static void learn_end(Chat *chat, const Tokenizer *tokenizer) {
    static const char answer[] = "quagga", white[] = " \t\r\n";
    Written x = {0};
    TokenList ids = {0};
    Err err;
    bool wrote = try_out(chat, talk, CHAT_CLOSED, &x) == 0 && x.text.n;
    const char *at = wrote ? memmem(x.text.data, x.text.n, answer, strlen(answer)) : NULL;
    size_t from = at ? (size_t)(at - x.text.data) + strlen(answer) : x.text.n, to = from;
    while (to < x.text.n && x.marks.data[to] != MARK_CONTENT) to++;
    while (to > from && strchr(white, x.text.data[to - 1])) to--;
    size_t token = from;
    while (token < to && strchr(white, x.text.data[token])) token++;
    int rc = token < to ? tokenizer_encode(tokenizer, x.text.data + token, to - token, true, &ids, &err) : -1;
    if (rc == 0 && ids.n && tokenizer_is_special(tokenizer, ids.ids[0]))
        chat->end = ids.ids[0];
    else if (rc == 0 && !*chat->stop && to - from < sizeof chat->stop)
        snprintf(chat->stop, sizeof chat->stop, "%.*s", (int)(to - from), x.text.data + from);
    token_list_free(&ids);
    written_free(&x);
}

/* ---- opening ---- */

/* The text of a special token, malloc'ed; "" for none. */
static char *word(const Tokenizer *t, int id) {
    size_t n = 0;
    const char *piece = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    return strndup(piece ? piece : "", piece ? n : 0);
}

/* What tokenizer_config.json calls it, null and "" for none; where it says nothing the text of token id. */
static char *called(const cJSON *config, const char *key, const Tokenizer *t, int id) {
    const char *text = chat_token_text(config, key);
    return json_field(config, key) ? strdup(text ? text : "") : word(t, id);
}

/* Takes chat->source for the template; -1 when it is none. */
static int take_source(Chat *chat, Err *err) {
    const ChatTemplate *known = chat_template_same(chat->source);
    char digest[65];
    Sha256 hash;
    chat->program = jinja_parse(chat->source, strlen(chat->source), err);
    sha256_init(&hash);
    sha256_add(&hash, chat->source, strlen(chat->source));
    sha256_hex(&hash, digest);
    snprintf(chat->name, sizeof chat->name, known ? "%s" : "own.%.8s", known ? known->name : digest);
    if (known && known->stop) snprintf(chat->stop, sizeof chat->stop, "%s", known->stop);
    return chat->program ? 0 : -1;
}

void chat_of_folder(Chat *chat, const char *dir) {
    Err err;
    *chat = (Chat){0};
    chat->source = chat_template_of_folder(dir, &err);
    if (!chat->source && !err.msg[0])
        snprintf(chat->why, sizeof chat->why, "the model has no chat template, neither %s nor in %s; %s",
                 CHAT_TEMPLATE_FILE, TOKENIZER_CONFIG_FILE, remedy);
    else if (!chat->source || take_source(chat, &err))
        snprintf(chat->why, sizeof chat->why, "the model's chat template cannot be read (%.200s); %s", err.msg, remedy);
    text_make_printable(chat->why);
}

static int use_option(Chat *chat, const char *option, Err *err) {
    Err why;
    const ChatTemplate *known = chat_template_named(option);
    chat->source = known ? try_strdup(known->source) : chat_template_of_file(option, &why);
    if (chat->source) return take_source(chat, &why) ? err_set(err, "--chat-template %.200s: %s", option, why.msg) : 0;
    if (known) return err_set(err, "no memory to read the chat template");
    Buffer names = {0};
    chat_template_names(&names);
    err_set(err, "--chat-template %.200s: no name of a known template, and %.200s; the known ones are %.*s", option,
            why.msg, (int)names.n, names.data);
    buffer_free(&names);
    return -1;
}

int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err) {
    int bos = tokenizer_bos(tokenizer);
    *chat = (Chat){0};
    memory_ran_out(); /* forget what was before */
    if (!option) chat_of_folder(chat, dir);
    if (option && use_option(chat, option, err)) {
        chat_close(chat);
        return -1;
    }
    chat->end = -1;
    Err unreadable;
    cJSON *names = chat_tokenizer_config(dir, &unreadable);
    chat->manner.bos = called(names, "bos_token", tokenizer, bos >= 0 ? bos : config->bos_token_id);
    chat->manner.eos = called(names, "eos_token", tokenizer, config->eos_token_id);
    cJSON_Delete(names);
    if (chat->program) {
        learn_contents(chat);
        learn_end(chat, tokenizer);
        learn_roles(chat, tokenizer);
    }
    if (memory_ran_out() || !chat->manner.bos || !chat->manner.eos)
        return err_set(err, "no memory to read the chat template");
    return 0;
}

void chat_close(Chat *chat) {
    jinja_free(chat->program);
    free(chat->source);
    free((char *)chat->manner.bos);
    free((char *)chat->manner.eos);
    free(chat->roles);
    *chat = (Chat){0};
}
