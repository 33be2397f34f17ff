#!/bin/sh
# fusebox diff: why the second column is faster.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# So unlike that one is the faster beyond doubt, however busy the machine is: where runs are disturbed enough, it rightly
# cannot be told.
cat >pair.lua <<'LUA'
local function model(n)
  return function(g)
    local x = g:input("x", { 262144 })
    for _ = 1, n do x = x:relu() end
    return x
  end
end
return require("fusebox").script { variants = { large = model(16), small = model(1) } }
LUA
differ() {
    for _ in 1 2 3 4 5; do
        fb diff pair.lua "$@"
        grep -Eq 'cannot tell|^wall: the same|"tie": true|of the difference, is not explained' out || return
    done
}

differ large:none small:max
is "a waterfall from the first column to the second" 0 out '^first +█+ +[0-9.]+ .s +large:none@host$' \
    out '^bytes +█+ +~-[0-9.]+ .s +[0-9]+ %$' out '^rest ' out '^second +█+ +[0-9.]+ .s +small:max@host$' \
    out '^bytes: [0-9.]+ MB → [0-9.]+ [kM]B moved: .* \(modelled\)' out '^wall: faster: [0-9.e+]+ ×' \
    out '^(wall|device): .*the largest part (is|that is:) [a-z]+: ' no '^loops:'
differ small:max large:none
is "the other way round the bars rise" 0 out '^bytes +█+ +~\+[0-9.]+ .s' out '^wall: [0-9.]+× slower'
LC_ALL=C
differ large:none small:max
is "ASCII where the locale is" 0 out '^bytes +#+ +~-[0-9.]+ [um]s' no '█|→|µ'
LC_ALL=C.UTF-8

differ large:none small:max --format json
is "JSON on stdout, nothing else" 0 no '^fusebox:'
# Kernels timed one by one may take longer than whole runs: then what lies between them cannot be told, and the rest holds it.
launches=why.parts.launches
! grep -q 'took longer than whole runs' out || launches='!why.parts.launches'
json "both reports and the parts" out fusebox=3 script columns#2 columns.0.plan=none columns.1.plan=max why.us why.a_us \
    why.b_us why.tie=false why.largest why.conclusion why.source=measured why.parts.dispatch "$launches" \
    why.parts.bytes why.parts.compute why.parts.occupancy why.parts.rest '!why.parts.spills' \
    why.details.bytes.basis=modelled why.details.bytes.text why.details.spills.text
cat >adds.awk <<'AWK'
/"parts": \{/ { inside = 1; next }
inside && /\}/ { inside = 0 }
inside { gsub(/[",:]/, " "); sum += $2 }
/^    "us": / { gsub(/,/, ""); us = $2 }
END { d = sum - us; exit !(d < 1e-6 && d > -1e-6 && us > 0) }
AWK
holds "the parts add up to the difference" awk -f adds.awk out

# Medians of one plan measured beside itself lie within their spread.
fb diff split_stack combined:max combined:max $small
is "a column beside itself is not said to differ, and the waterfall is shown" 0 out '^wall: (cannot tell|the same within)' \
    out '^bytes' out '^(wall|device): (it cannot be told whether|the same)'

fb diff split_stack max combined:max $small
is "a plan of all variants is no column" 2 err1 'name one, such as'
fb diff split_stack combined:max
is "a column is missing" 2 err1 'an argument is missing'
fb diff split_stack combined:eager combined:max --set batch_size=64,128
is "it does not sweep" 2 err1 'one value a parameter'
fb diff split_stack combined:eager combined:max --format csv
is "formats are table and json" 2 err1 'there are: table, json'
fb diff split_stack combined:eager combined:nonsense $small
is "a plan that does not exist" 2 err1 'nonsense'
done_testing
