/* The session of fake_session.c; the rest of its interface is session/session.h. */
#ifndef FB_TESTS_FAKE_SESSION_H
#define FB_TESTS_FAKE_SESSION_H

#include "session/session.h"

fb_session *fake_session_new(void);

#endif
