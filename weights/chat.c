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

static int encode_messages(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n,
                           const Tokenizer *tokenizer, TokenList *out, ChatFault *fault, Err *err) {
    Buffer text = {0};
    int rc = chat->form->render(chat->form, m, n, words, &text, fault);
    if (rc == 0 && text.failed) rc = err_set(err, "no memory to write the conversation");
    if (rc == 0) rc = tokenizer_encode_quoted(tokenizer, text.data, text.n, out, err);
    buffer_free(&text);
    return rc;
}

int chat_encode(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n, bool parse_special,
                const Tokenizer *tokenizer, TokenList *out, ChatFault *fault, Err *err) {
    *fault = (ChatFault){0};
    for (int i = 0; i < n; i++)
        if (!utf8_is_valid(m[i].content, strlen(m[i].content))) return err_set(err, "message %d is no valid UTF-8", i);
    if (parse_special) return encode_messages(chat, words, m, n, tokenizer, out, fault, err);
    ChatMessage *quoting = try_calloc((size_t)n, sizeof *quoting);
    Buffer *contents = try_calloc((size_t)n, sizeof *contents);
    bool whole = quoting && contents;
    for (int i = 0; i < n && whole; i++) {
        tokenizer_quote(tokenizer, m[i].content, &contents[i]);
        buffer_append(&contents[i], "", 1);
        whole = !contents[i].failed;
        quoting[i] = (ChatMessage){m[i].role, contents[i].data};
    }
    int rc = whole ? encode_messages(chat, words, quoting, n, tokenizer, out, fault, err)
                   : err_set(err, "no memory to write the conversation");
    for (int i = 0; i < n && contents; i++) buffer_free(&contents[i]);
    free(contents);
    free(quoting);
    return rc;
}
