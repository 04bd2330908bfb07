#include "weights/chat.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/chat_files.h"

#include <stdlib.h>
#include <string.h>

static const char remedy[] = "the option --chat-template NAME|FILE says which to use";

/* The text of a special token, malloc'ed; "" for none. */
static char *word(const Tokenizer *t, int id) {
    size_t n = 0;
    const char *piece = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    return strndup(piece ? piece : "", piece ? n : 0);
}

void chat_of_folder(Chat *chat, const char *dir) {
    Err err;
    *chat = (Chat){0};
    chat->source = chat_template_of_folder(dir, &err);
    chat->form = chat->source ? chat_template_recognise(chat->source) : NULL;
    if (err.msg[0])
        snprintf(chat->why, sizeof chat->why, "the model's chat template cannot be read (%.200s); %s", err.msg, remedy);
    else
        snprintf(chat->why, sizeof chat->why, "the model %s; %s",
                 chat->source ? "has a chat template that is none of the known ones"
                              : "has no chat template, neither " CHAT_TEMPLATE_FILE " nor in " TOKENIZER_CONFIG_FILE,
                 remedy);
}

static int use_option(Chat *chat, const char *option, Err *err) {
    Err why;
    chat->form = chat_template_named(option);
    if (chat->form) return 0;
    chat->source = chat_template_of_file(option, &why);
    chat->form = chat->source ? chat_template_recognise(chat->source) : NULL;
    if (chat->form) return 0;
    Buffer names = {0};
    chat_template_names(&names);
    err_set(err, "--chat-template %.200s: %s%.200s; the known ones are %.*s", option,
            chat->source ? "the file holds none of the known templates" : "no name of a known template, and ",
            chat->source ? "" : why.msg, (int)names.n, names.data);
    buffer_free(&names);
    return -1;
}

int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err) {
    int bos = tokenizer_bos(tokenizer);
    *chat = (Chat){0};
    if (option && use_option(chat, option, err)) return -1;
    if (!option) chat_of_folder(chat, dir);
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

int chat_ends(const Chat *chat, const Tokenizer *tokenizer, int ids[CHAT_ENDS]) {
    int n = 0;
    for (int i = 0; i < CHAT_ENDS && chat->form->ends[i]; i++) {
        int id = tokenizer_find_special(tokenizer, chat->form->ends[i]);
        if (id >= 0) ids[n++] = id;
    }
    return n;
}

/* U+FDD0, which is no character: behind the content of an unfinished message it shows where to cut. */
static const char mark[] = "\xEF\xB7\x90";

/* The last one: a content may have some of its own. */
static int cut_at_mark(Buffer *text, size_t from, Err *err) {
    size_t n = strlen(mark);
    for (size_t i = text->n; i >= from + n; i--)
        if (!memcmp(text->data + i - n, mark, n)) {
            text->n = i - n;
            return 0;
        }
    return err_set(err, "the template does not write the last message as it is");
}

/* Contents are copied by `copy`, with the mark behind the last one where that is unfinished. */
static int render(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n,
                  void (*copy)(const Tokenizer *t, const char *text, Buffer *out), const Tokenizer *tokenizer,
                  Buffer *out, ChatFault *fault, Err *err) {
    ChatMessage *copies = try_calloc((size_t)n, sizeof *copies);
    Buffer *contents = try_calloc((size_t)n, sizeof *contents);
    bool whole = copies && contents;
    size_t from = out->n;
    *fault = (ChatFault){0};
    for (int i = 0; i < n && whole; i++) {
        copy(tokenizer, m[i].content, &contents[i]);
        if (words->end == CHAT_UNFINISHED && i == n - 1) buffer_text(&contents[i], mark);
        buffer_append(&contents[i], "", 1);
        whole = !contents[i].failed;
        copies[i] = (ChatMessage){m[i].role, contents[i].data};
    }
    int rc = whole ? chat->form->render(chat->form, copies, n, words, out, fault) : -1;
    if (!whole || out->failed) rc = err_set(err, "no memory to write the conversation");
    if (rc == 0 && words->end == CHAT_UNFINISHED) rc = cut_at_mark(out, from, err);
    for (int i = 0; i < n && contents; i++) buffer_free(&contents[i]);
    free(contents);
    free(copies);
    return rc;
}

static int check_utf8(const ChatMessage *m, int n, Err *err) {
    for (int i = 0; i < n; i++)
        if (!utf8_is_valid(m[i].content, strlen(m[i].content))) return err_set(err, "message %d is no valid UTF-8", i);
    return 0;
}

static void copy_plain(const Tokenizer *t, const char *text, Buffer *out) {
    (void)t;
    buffer_text(out, text);
}

int chat_write(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n, Buffer *out, ChatFault *fault,
               Err *err) {
    *fault = (ChatFault){0};
    return check_utf8(m, n, err) ? -1 : render(chat, words, m, n, copy_plain, NULL, out, fault, err);
}

int chat_encode(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n, bool parse_special,
                const Tokenizer *tokenizer, TokenList *out, ChatFault *fault, Err *err) {
    Buffer text = {0};
    *fault = (ChatFault){0};
    if (check_utf8(m, n, err)) return -1;
    int rc = render(chat, words, m, n, parse_special ? copy_plain : tokenizer_quote, tokenizer, &text, fault, err);
    if (rc == 0) rc = tokenizer_encode_quoted(tokenizer, text.data, text.n, out, err);
    buffer_free(&text);
    return rc;
}
