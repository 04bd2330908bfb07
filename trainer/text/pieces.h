/* pieces: a file of texts of any length, piece by piece, so that several threads encode it in bounded memory.
 *
 * A file is one text, packed or not (source.h). A file whose name, but for .gz or .zst, ends in .jsonl holds a text a
 * line: an object, of which one field is the text. Where the pieces end depends on the texts and the tokenizer alone:
 * at the first place behind PIECE bytes where a cut changes no id (tokenizer/cut.h), of lines behind one.
 *
 * The last 5% of a file's bytes, unpacked, are held out: texts_cut says from where, but of .jsonl always from the
 * beginning of a line. To know how long a packed file is takes unpacking it, twice up to that place. */
#ifndef NOISED_PIECES_H
#define NOISED_PIECES_H

#include "tokenizer/tokenizer.h"
#include "trainer/text/source.h"
#include "trainer/text/texts.h"

enum { PIECE = 1 << 16, PIECE_MAX = 1 << 23 }; /* bytes that a piece has about, and never more than */

typedef struct Piece {
    char *data; /* [n] malloc'ed, the taker's */
    size_t n;
    const char *path, *field; /* borrowed; field NULL: a text or a part of one, else whole lines */
    TextPlace at;
    bool begins;   /* the text begins here */
    bool held_out; /* behind the cut */
} Piece;

typedef struct PieceReader {
    Source source;
    const Tokenizer *tok;
    const char *field;
    char *data; /* [n] of [room], the next bytes; at: where these are */
    size_t n, room;
    TextPlace at;
    int64_t cut; /* INT64_MAX: nothing is held out */
    bool ended;
} PieceReader;

/* tok and field, which is of .jsonl files alone, are borrowed. `at` is TEXT_START or one that a reader came to.
 * Whatever the outcome, piece_reader_close takes it. */
int piece_reader_open(PieceReader *r, const char *path, const char *field, const Tokenizer *tok, bool hold_out,
                      TextPlace at, Err *err);
/* 1 and the next piece, 0 behind the last one, -1 on error. */
int piece_next(PieceReader *r, Piece *p, Err *err);
void piece_reader_close(PieceReader *r);

/* Appends the ids as corpus.h says, but `separator`, unless it is -1, in front of every text, the first too. *bytes
 * grows by those of the texts. Any thread. */
int piece_encode(const Piece *p, const Tokenizer *tok, int separator, TokenList *out, uint64_t *bytes, Err *err);

/* One text, in steps of about PIECE bytes; the token that the tokenizer wants in front of it too. */
int text_encode(const Tokenizer *tok, const char *text, size_t n, TokenList *out, Err *err);

#endif
