"""A page of mixed text: languages, code, numbers, white space, emoji, odd characters."""

PAGE = [
    "The student did not answer the question because it was too difficult.",
    "Don't you'll we've I'M they'RE — “quotes” ‘single’ … en–dash",
    "In 1984, 12345 people paid $1,234.56 (that is 7.5% of 3e-10) on 2024-02-29.",
    "def f(x: int) -> str:\n    if x >= 10:\n\treturn f'{x!r:>8}'  # comment\n\n\n"
    '    return ""\n',
    "<div class=\"a b\">&nbsp;</div>\n<!-- x -->\nSELECT * FROM t WHERE a != 'b';",
    "  leading, trailing and   inner    runs of spaces  ",
    "tabs\tand\t\ttabs\n\n\n\nfour breaks\r\nWindows line\u00a0no-break\u3000ideographic",
    "Über naïve façade; Łódź, Çeşme, Ærøskøbing, smörgåsbord",
    "e\u0301 composed é, A\u030a, n\u0303o, ﬁ ligature",
    "Москва — столица России. Ελληνικά, עברית, العربية، हिन्दी, ไทย",
    "我喜欢草莓果酱。日本語のテキストです。한국어 문장입니다.",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ 🤷‍♀️ and 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛",
    "camelCaseHTTPServer snake_case_name kebab-case x=y+z; i++; a&&b || !c",
    "https://example.org/a?b=c&d=%20#frag user@example.com C:\\dir\\file.txt",
    "<|endoftext|> and <s> </s> [CLS] <bos> <unk> <0x0A> <unused5> <start_of_turn>user",
    "zero\u200bwidth, soft\u00adhyphen, \ufeffbyte order mark, \u0007 bell, \u2028 line separator",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAA aaaaaaaaaaaaaaaaaaaaaaaaaaa !!!!!!!!!!!!!!!! ----------",
    "                                        forty spaces",
    "½ cup, 5² m, ① first, ٣ ৪ Ⅷ, ¾",
    "1 22 333 4444 55555 666666 7777777 88888888 0x1F 1_000 1.000,5",
]
