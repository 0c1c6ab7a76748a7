// A reader for whom English is a foreign language loses the thread of a long sentence: in a paragraph, an item of a list or a
// cell of a table. Code is one word. The rules for this that are published look into no table.
"use strict";

const MOST_WORDS = 30;

module.exports = (context) => {
    const { Syntax, RuleError, report, locator } = context;
    const text = (node) => (node.type === Syntax.Code ? "code" : node.children ? node.children.map(text).join("") : node.value || "");
    const check = (node) => {
        for (const sentence of text(node).split(/(?<=[.!?]["')]*)\s+/u)) {
            const words = sentence.split(/\s+/u).filter((word) => /[\p{L}\p{N}]/u.test(word));
            if (words.length > MOST_WORDS) {
                // Code is left out of the text, so the place is that of the sentence's first words, if they have none.
                const at = context.getSource(node).indexOf(sentence.slice(0, 12));
                const hint = `${words.length} words: make two sentences of "${words.slice(0, 6).join(" ")} …"`;
                report(node, new RuleError(hint, { padding: locator.at(Math.max(at, 0)) }));
            }
        }
    };
    return { [Syntax.Paragraph]: check, [Syntax.TableCell]: check };
};
