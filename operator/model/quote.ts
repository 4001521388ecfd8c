const LONGEST = 200;
/** Characters that JSON leaves unchanged and that may act on a terminal or log reader. */
const UNSEEN = /[\p{Cc}\u2028\u2029]/gu;

/** The start of a text in quotes, on one line and without control characters. */
export function quote(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return JSON.stringify(cut).replace(UNSEEN, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
