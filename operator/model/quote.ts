const LONGEST = 200;
/** What JSON leaves as it is and a terminal or log reader may act on. */
const UNSEEN = /[\p{Cc}\u2028\u2029]/gu;

/** Enough of a text to find it by, in quotes, on one line and without control characters. */
export function quote(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return JSON.stringify(cut).replace(UNSEEN, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
