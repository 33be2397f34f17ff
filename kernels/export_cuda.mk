# lib@NAME@.a, for @ARCH@. `make test` compares a run with what is expected (77: there is no GPU); `make install
# PREFIX=/usr/local`. CUDA_HOME is where cuda.h and the libraries lie.
NAME = @NAME@
SOURCES = @SOURCES@
PREFIX ?= /usr/local
DESTDIR ?=
CUDA_HOME ?= /usr/local/cuda
WARNINGS ?= -Wall -Wextra
FLAGS = -std=gnu17 -O2 $(WARNINGS) -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include $(CFLAGS)
LIBS = $(foreach d,lib64 lib lib64/stubs lib/stubs,-L$(CUDA_HOME)/$(d)) @LIBS@ -lm
OBJECTS = $(SOURCES:.c=.o)

all: lib$(NAME).a lib$(NAME).so

%.o: %.c $(NAME).h src/code.h
	$(CC) $(CPPFLAGS) $(FLAGS) -c -o $@ $<

lib$(NAME).a: $(OBJECTS)
	rm -f $@ && $(AR) rcs $@ $(OBJECTS)

lib$(NAME).so: $(OBJECTS)
	$(CC) $(FLAGS) -shared $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

test/main: test/main.c lib$(NAME).a
	$(CC) $(CPPFLAGS) $(FLAGS) $(LDFLAGS) -o $@ test/main.c lib$(NAME).a $(LIBS)

ifeq (@TEST@,1)
test: test/main
	./test/main test/data.bin
else
test:
	@echo "no test was exported"
endif

$(NAME).pc: $(NAME).pc.in
	sed -e 's|@''PREFIX@|$(PREFIX)|' -e 's|@''OPENMP@||' $< >$@

install: all $(NAME).pc
	mkdir -p "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	cp $(NAME).h "$(DESTDIR)$(PREFIX)/include/"
	cp lib$(NAME).a lib$(NAME).so "$(DESTDIR)$(PREFIX)/lib/"
	cp $(NAME).pc "$(DESTDIR)$(PREFIX)/lib/pkgconfig/"

clean:
	rm -f $(OBJECTS) lib$(NAME).a lib$(NAME).so $(NAME).pc test/main

.PHONY: all test install clean
