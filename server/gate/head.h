/* head: the head of a request (RFC 9112), from raw bytes. Nothing is guessed and nothing repaired: what two
 * readers could take for two different requests is refused, and so is every byte that has no place where it stands. */
#ifndef NOISED_GATE_HEAD_H
#define NOISED_GATE_HEAD_H

#include "base/err.h"

#include <sys/types.h>

enum { HTTP_MAX_URI = 2048, HTTP_MAX_HEAD = 16384, HTTP_MAX_HEADERS = 64 }; /* bytes, bytes, lines */

/* The fields that are read here. Of each there may be one: of two, another reader could take the other. */
typedef enum HeadField {
    HEAD_HOST,
    HEAD_LENGTH,
    HEAD_ENCODING,
    HEAD_CODING,
    HEAD_EXPECT,
    HEAD_AUTHORIZATION,
    HEAD_API_KEY,
    HEAD_FETCH_SITE,
    HEAD_ORIGIN,
    HEAD_WANTED_METHOD,
    HEAD_WANTED_HEADERS,
    HEAD_REQUEST_ID,
    HEAD_TRACE_PARENT,
    HEAD_FIELDS
} HeadField;
const char *head_name(HeadField field);

typedef struct Head {
    const char *method, *target; /* as all strings here, in the text; target: the path as it came, without the query */
    const char *authority;       /* of a target like "http://host/path"; it stands for Host */
    /* Trimmed; NULL: absent, or a request id that is not 1 to 128 visible characters, or a traceparent that is none
     * (W3C Trace Context). */
    const char *fields[HEAD_FIELDS];
    bool http11;
    bool keep_alive; /* the client would send another request */
    bool chunked;    /* else the body has `length` bytes */
    size_t length;
} Head;

/* The bytes of the head that text[0..n) begins with, its empty line included; 0 when that line has not come yet; -1
 * when no head begins like this (control characters, a CR or LF alone). *seen, 0 for a new head, spares the next call
 * what this one has looked at. */
ssize_t head_end(const char *text, size_t n, size_t *seen);

/* text[0..n) is what head_end measured and is cut up in place. 0, or the status to refuse the request with and why. */
int head_parse(Head *head, char *text, size_t n, size_t max_body, const char **why);

/* The same request as another reader is to find it: nothing but the request line, those fields and Connection, at
 * text[0..max); the bytes written, 0 when there are more. */
size_t head_write(const Head *head, char *text, size_t max);

/* Of a traceparent, VERSION-TRACE-PARENT-FLAGS in lower-case hexadecimal: where its parts begin, and their lengths. */
enum {
    TRACE_AT = 3,
    TRACE_DIGITS = 32,
    PARENT_AT = 36,
    PARENT_DIGITS = 16,
    TRACE_FLAGS_AT = 53,
    TRACE_PARENT_LENGTH = 55 /* of version 00; later ones may go on behind a dash */
};

/* The grammar's characters, for what else is read byte by byte. */
bool head_is_token(unsigned char c);
bool head_is_text(unsigned char c); /* of a field value */

#endif
