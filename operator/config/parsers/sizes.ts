import { invalid, type Parser, valid } from './parser.ts';

const UNITS: ReadonlyMap<string, number> = new Map([
  ['Ki', 2 ** 10],
  ['Mi', 2 ** 20],
  ['Gi', 2 ** 30],
  ['Ti', 2 ** 40],
]);
const MEND = 'write it as in 512Mi or 2Gi';

/** Bytes, as Kubernetes writes them with binary suffixes; `0` for none. */
export function byteSize(): Parser<number> {
  return {
    accepts: '`512Mi`, `2Gi`, …; `0` for none',
    parse(text) {
      if (text === '0') return valid(0);
      const [, digits, unit = ''] = /^(\d{1,6})(Ki|Mi|Gi|Ti)$/.exec(text) ?? [];
      if (digits === undefined) return invalid('not a size', MEND);
      const bytes = Number(digits) * (UNITS.get(unit) ?? 1);
      return Number.isSafeInteger(bytes) ? valid(bytes) : invalid('too large', MEND);
    },
  };
}
