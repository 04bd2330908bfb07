#include "trainer/text/pieces.h"

#include "base/json/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/cut.h"
#include "trainer/text/lines.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_DEPTH = 64, JSON_VALUES = 1 << 20 };

/* ---- reading ---- */

static bool is_lines(const char *path) {
    return text_ends(path, ".jsonl") || text_ends(path, ".jsonl.gz") || text_ends(path, ".jsonl.zst");
}

/* Behind the first line feed from `from` on, which is looked for in `most` bytes; else *found is 0. */
static int find_line(const char *path, int64_t from, int64_t most, int64_t *found, Err *err) {
    Source s;
    char room[PIECE / 4];
    int64_t got = 0;
    int rc = source_open(&s, path, err) || source_skip(&s, from, err) ? -1 : 0;
    *found = 0;
    while (rc == 0 && most > 0 && !*found) {
        got = source_read(&s, room, (size_t)MIN(most, (int64_t)sizeof room), err);
        if (got <= 0) break;
        const char *line = memchr(room, '\n', (size_t)got);
        if (line) *found = from + (line + 1 - room);
        from += got;
        most -= got;
    }
    source_close(&s);
    return rc || got < 0 ? -1 : 0;
}

/* The first whole character of a text at `from` or behind. */
static int find_character(const char *path, int64_t from, int64_t *found, Err *err) {
    Source s;
    char next[4];
    int64_t got = -1;
    if (source_open(&s, path, err) == 0 && source_skip(&s, from, err) == 0)
        got = source_read(&s, next, sizeof next, err);
    source_close(&s);
    *found = from;
    for (int64_t i = 0; i < got && ((unsigned char)next[i] & 0xC0) == 0x80; i++) ++*found;
    return got < 0 ? -1 : 0;
}

/* texts_cut of a stream. */
static int find_cut(const char *path, bool lines, int64_t *cut, Err *err) {
    int64_t n, line;
    if (source_length(path, &n, err)) return -1;
    int64_t held_out = n / 100 * HELD_OUT_PER_CENT + n % 100 * HELD_OUT_PER_CENT / 100, from = n - held_out;
    *cut = INT64_MAX;
    if (held_out == 0) return 0;
    if (find_line(path, from - 1, lines ? held_out : held_out / 2 + 1, &line, err)) return -1;
    if (!line && !lines && find_character(path, from, &line, err)) return -1;
    if (line && line < n) *cut = line;
    return 0;
}

int piece_reader_open(PieceReader *r, const char *path, const char *field, const Tokenizer *tok, bool hold_out,
                      TextPlace at, Err *err) {
    bool lines = is_lines(path);
    *r = (PieceReader){.tok = tok, .field = lines ? field : NULL, .at = at, .cut = INT64_MAX, .source = {.fd = -1}};
    if (hold_out && find_cut(path, lines, &r->cut, err)) return -1;
    return source_open(&r->source, path, err) || source_skip(&r->source, at.byte, err) ? -1 : 0;
}

void piece_reader_close(PieceReader *r) {
    source_close(&r->source);
    free(r->data);
    r->data = NULL;
}

static int fill(PieceReader *r, size_t wanted, Err *err) {
    if (r->room < wanted) {
        r->data = xrealloc(r->data, wanted);
        r->room = wanted;
    }
    int64_t got = source_read(&r->source, r->data + r->n, wanted - r->n, err);
    if (got < 0) return -1;
    r->n += (size_t)got;
    r->ended = r->n < wanted;
    return 0;
}

/* Bytes of the next piece, of data[0..n) with more behind it, or not; 0: more must be seen to tell. */
static size_t next_end(const PieceReader *r, size_t n, bool more) {
    size_t end = n;
    if (n > PIECE && r->field) {
        const char *line = memchr(r->data + PIECE, '\n', n - PIECE);
        if (line) return (size_t)(line + 1 - r->data);
    } else if (n > PIECE) {
        end = tokenizer_cut(r->tok, r->data, PIECE, n);
    }
    return end == n && more ? 0 : end;
}

static int64_t count_lines(const char *data, size_t n) {
    int64_t lines = 0;
    for (const char *at = data; (at = memchr(at, '\n', (size_t)(data + n - at))); at++) lines++;
    return lines;
}

static void take(PieceReader *r, size_t n, Piece *p) {
    *p = (Piece){.data = xmalloc(n), .n = n, .path = r->source.path, .field = r->field, .at = r->at};
    memcpy(p->data, r->data, n);
    p->begins = r->at.byte == 0 || r->at.byte == r->cut;
    p->held_out = r->at.byte >= r->cut;
    r->at.byte += (int64_t)n;
    r->at.line += count_lines(r->data, n);
    r->n -= n;
    memmove(r->data, r->data + n, r->n);
}

int piece_next(PieceReader *r, Piece *p, Err *err) {
    for (size_t wanted = 2 * PIECE; wanted <= PIECE_MAX; wanted *= 2) {
        if (!r->ended && r->n < wanted && fill(r, wanted, err)) return -1;
        size_t n = r->n;
        int64_t left = r->cut - r->at.byte; /* of the part that is trained on */
        bool whole = left > 0 && (int64_t)n >= left, more = !whole && !r->ended;
        if (whole) n = (size_t)left;
        if (n == 0 && !more) return r->at.byte ? 0 : err_set(err, "%s: the file is empty", r->source.path);
        size_t end = next_end(r, n, more);
        if (end) return take(r, end, p), 1;
    }
    if (r->field)
        return err_set(err, "%s: line %lld is longer than %d bytes", r->source.path,
                       (long long)(r->at.line + count_lines(r->data, r->n)), PIECE_MAX - PIECE);
    return err_set(err,
                   "%s: line %lld: in %d bytes there is no place to cut that would change no token: the text has no "
                   "spaces, or the tokenizer has merges or added tokens that reach across them (.jsonl: a text a line)",
                   r->source.path, (long long)r->at.line, PIECE_MAX);
}

/* ---- encoding ---- */

int text_encode(const Tokenizer *tok, const char *text, size_t n, TokenList *out, Err *err) {
    int bos = tokenizer_bos(tok);
    if (bos >= 0) token_list_push(out, bos);
    for (size_t at = 0; at < n;) {
        size_t end = at + tokenizer_cut(tok, text + at, MIN((size_t)PIECE, n - at), n - at);
        if ((at ? tokenizer_encode_rest : tokenizer_encode)(tok, text + at, end - at, true, out, err)) return -1;
        at = end;
    }
    return out->failed ? err_set(err, "no memory for the token ids") : 0;
}

/* As text_encode has it: without what stands in front where the piece does not begin the text. */
static int encode_part(const Piece *p, const Tokenizer *tok, int separator, TokenList *out, uint64_t *bytes, Err *err) {
    if (text_check(p->path, p->at, p->data, p->n, err)) return -1;
    *bytes += p->n;
    if (!p->begins) return tokenizer_encode_rest(tok, p->data, p->n, true, out, err);
    if (separator >= 0) token_list_push(out, separator);
    int bos = tokenizer_bos(tok);
    if (bos >= 0) token_list_push(out, bos);
    return tokenizer_encode(tok, p->data, p->n, true, out, err);
}

static int encode_line(const Piece *p, const char *line, size_t n, const Tokenizer *tok, int separator, TokenList *out,
                       uint64_t *bytes, Err *err) {
    cJSON *object = json_parse(line, n, JSON_DEPTH, JSON_VALUES, err);
    if (!object) return -1;
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(object, p->field);
    int rc = 0;
    if (!cJSON_IsString(text)) {
        rc = err_set(err, "%s", text ? "is no text" : "is missing");
    } else if (*text->valuestring) {
        size_t length = strlen(text->valuestring);
        if (separator >= 0) token_list_push(out, separator);
        rc = text_encode(tok, text->valuestring, length, out, err);
        *bytes += length;
    }
    cJSON_Delete(object);
    return rc;
}

int piece_encode(const Piece *p, const Tokenizer *tok, int separator, TokenList *out, uint64_t *bytes, Err *err) {
    static const char mark[] = "\xEF\xBB\xBF"; /* of UTF-8, in front of a file */
    const char *line = p->data, *end = p->data + p->n;
    if (!p->field) return encode_part(p, tok, separator, out, bytes, err);
    if (p->at.line == 1 && p->n >= 3 && !memcmp(line, mark, 3)) line += 3;
    for (int64_t number = p->at.line; line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((stop ? stop : end) - line);
        bool blank = true;
        for (size_t i = 0; i < n && blank; i++) blank = strchr(" \t\r", line[i]) != NULL && line[i];
        Err why;
        if (!blank && encode_line(p, line, n, tok, separator, out, bytes, &why))
            return err_set(err, "%s: line %lld: --field %s: %.300s", p->path, (long long)number, p->field, why.msg);
        line += n + 1;
    }
    return 0;
}
