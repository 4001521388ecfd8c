/** Tokens of a source: comments, texts and names, in this order of preference. */
const TOKEN =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|#?[A-Za-z_$][\w$]*/g;
const NAME = /^#?[A-Za-z_$]/;

/** The names that a source in TypeScript or JavaScript uses, without what stands in comments and texts. */
export function namesIn(source: string): ReadonlySet<string> {
  return new Set([...source.matchAll(TOKEN)].map(([token]) => token).filter((t) => NAME.test(t)));
}

/** The words of a name, in lower case: of `isToldBy`, `IS_TOLD_BY` and `is-told-by`: is, told, by. */
export function wordsOfName(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
    .map((word) => word.toLowerCase());
}

/** The texts in quotes that have at least two words, without those that are HTML. */
export function textsIn(source: string): readonly string[] {
  return [...source.matchAll(TOKEN)]
    .map(([token]) => token)
    .filter((token) => /^['"`]/.test(token) && token.includes(' ') && !/[<>]/.test(token))
    .map((token) => token.slice(1, -1).replaceAll(/\$\{[^}]*\}/g, '…'));
}
