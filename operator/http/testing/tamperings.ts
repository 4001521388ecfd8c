import { signAgain } from './statements.ts';

/** A line of a statement, as far as a forger needs to know it. */
interface Line {
  readonly first?: number;
  readonly path?: readonly object[];
  readonly event?: object;
  readonly sequence?: number;
}

/** What a forger has: a statement, one of another tenant for the same batches, and chance. */
export interface Forgery {
  readonly lines: readonly string[];
  readonly foreign: readonly string[];
  readonly random: () => number;
}

/** Changes the lines; undefined where chance found nothing to change. */
type Tampering = (forgery: Forgery) => readonly string[] | undefined;

const EVENT = /^\{"sequence":/;
const QUANTITY = /"quantity":(-?[\d.]+)\}\}$/;

/**
 * What somebody does who can sign the file again, thus the provider itself. The chain, the ids or
 * the sums find it.
 */
export const SIGNED: ReadonlyMap<string, Tampering> = new Map<string, Tampering>([
  [
    'a changed quantity',
    changeEvent((event) =>
      event.replace(QUANTITY, (_, was: string) => `"quantity":${Number(was) + 1}}}`),
    ),
  ],
  [
    'a changed window',
    changeEvent((event) =>
      event.replace(
        /("window_start":"2026-11-)(..)/,
        (_, before: string, day: string) => `${before}${day === '03' ? '04' : '03'}`,
      ),
    ),
  ],
  [
    'a changed sku',
    changeLine(/^\{"sequence":.*"sku":"a"/, (event) => event.replace('"sku":"a"', '"sku":"b"')),
  ],
  ['another id', changeEvent((event) => event.replace(/"id":"(....)/, '"id":"$1x'))],
  [
    'a changed time of recording',
    changeEvent((event) => event.replace(/"recorded_at":"2026/, '"recorded_at":"2027')),
  ],
  [
    'an event that is missing',
    ({ lines, random }) => {
      const at = anyLine(lines, EVENT, random);
      return countAgain(lines.toSpliced(at, 1), at, -1);
    },
  ],
  [
    'an event twice',
    ({ lines, random }) => {
      const at = anyLine(lines, EVENT, random);
      return countAgain(lines.toSpliced(at, 0, lines[at] ?? ''), at, 1);
    },
  ],
  [
    "another tenant's event",
    ({ lines, foreign, random }) => {
      const at = anyLine(lines, EVENT, random);
      return lines.with(at, foreign[anyLine(foreign, EVENT, random)] ?? '');
    },
  ],
  [
    "another tenant's events with their own proof",
    ({ lines, foreign, random }) => {
      const from = anyLine(lines, /"path":/, random);
      const { first } = parse(lines[from]);
      const other = foreign.findIndex(
        (line) => /"path":/.test(line) && parse(line).first === first,
      );
      if (other === -1) return undefined;
      const theirs = foreign.slice(other, endOf(foreign, other)).map(withoutStart);
      const start = { ...parse(lines[from]), ...parse(theirs[0]) };
      return lines.toSpliced(
        from,
        endOf(lines, from) - from,
        JSON.stringify(start),
        ...theirs.slice(1),
      );
    },
  ],
  [
    'a batch that is missing',
    ({ lines, random }) => {
      const from = anyLine(lines, /"first":/, random);
      return lines.toSpliced(from, endOf(lines, from) - from);
    },
  ],
  [
    'a cut tail of batches',
    ({ lines, random }) => {
      const from = anyLine(lines, /"first":/, random);
      return [...lines.slice(0, from), ...lines.slice(-3)];
    },
  ],
  [
    'a swapped pair of events',
    ({ lines, random }) => {
      const at = anyLine(lines, EVENT, random);
      const after = lines[at + 1] ?? '';
      return EVENT.test(after) ? lines.with(at, after).with(at + 1, lines[at] ?? '') : undefined;
    },
  ],
  [
    'a changed neighbour in a path',
    changeLine(/"path":\[\{/, (line) =>
      line.replace(
        /("(?:left|right)":")(.)/,
        (_, before: string, digit: string) => `${before}${digit === '0' ? '1' : '0'}`,
      ),
    ),
  ],
  [
    'a neighbour on the other side',
    changeLine(/"path":\[\{/, (line) =>
      line.replace(/"(left|right)"/, (_, side: string) => (side === 'left' ? '"right"' : '"left"')),
    ),
  ],
  [
    'other numbers of a batch',
    changeLine(/"first":/, (line) =>
      line.replace(/"first":(\d+)/, (_, first: string) => `"first":${Number(first) - 1}`),
    ),
  ],
  [
    'other prices',
    changeLine(/^\{"plans"/, (line) => line.replace(/"(2\.5|3\.125|150|0\.5)"/, '"4"')),
  ],
  [
    'another day of a price',
    changeLine(/^\{"plans"/, (line) => line.replace('"from":"2026-11-12"', '"from":"2026-11-03"')),
  ],
  [
    'more of it free',
    changeLine(/^\{"plans"/, (line) => line.replace(/"included":"\d+"/, '"included":"100"')),
  ],
  [
    'another plan',
    changeLine(/^\{"plans"/, (line) =>
      line.replace(/"plan":"gold"|"plan":"tenant-standard"/, '"plan":null'),
    ),
  ],
  [
    'another sum',
    changeLine(/^\{"sums"/, (line) =>
      line.replace(
        /"quantity":"(\d)/,
        (_, digit: string) => `"quantity":"${(Number(digit) % 9) + 1}`,
      ),
    ),
  ],
  [
    'another cost',
    changeLine(/^\{"sums"/, (line) =>
      line.replace(/"cost":"(\d)/, (_, digit: string) => `"cost":"${(Number(digit) % 9) + 1}`),
    ),
  ],
  [
    'another amount',
    changeLine(/^\{"sums"/, (line) =>
      line.replace(/"amount":"(\d)/, (_, digit: string) => `"amount":"${(Number(digit) % 9) + 1}`),
    ),
  ],
  [
    'a count of events',
    changeLine(/^\{"sums"/, (line) =>
      line.replace(/"events":(\d)/, (_, digit: string) => `"events":${(Number(digit) % 9) + 1}`),
    ),
  ],
  [
    'charged usage that is called free',
    changeLine(/^\{"sums"/, (line) =>
      line.replace('"tenant_gpu_utilization"', '"tenant_instance_hours"'),
    ),
  ],
  [
    'another tenant in its head',
    changeLine(/^\{"format"/, (line) => line.replace('"tenant":"', '"tenant":"x')),
  ],
  [
    'another month in its head',
    changeLine(/^\{"format"/, (line) => line.replace('"2026-11"', '"2026-10"')),
  ],
]);

/** What somebody does who cannot sign: anything at all. */
export function tamperUnsigned({ lines, random }: Forgery): string {
  const text = lines.map((line) => `${line}\n`).join('');
  const at = Math.floor(random() * text.length);
  const kind = random();
  if (kind < 0.3) return text.slice(0, at);
  if (kind < 0.6) return text.slice(0, at) + text.slice(at + 1 + Math.floor(random() * 500));
  const replaced = text.charAt(at) === '7' ? '8' : '7';
  return text.slice(0, at) + replaced + text.slice(at + 1);
}

/** A tampered statement with the name of what was done. */
export function tamper(forgery: Forgery): readonly [name: string, text: string] {
  const { lines, random } = forgery;
  if (random() < 0.25) return ['unsigned', tamperUnsigned(forgery)];
  for (;;) {
    const [name, change] = [...SIGNED][Math.floor(random() * SIGNED.size)] ?? [];
    const changed = change?.(forgery);
    if (name === undefined || changed === undefined) continue;
    if (changed.join('\n') !== lines.join('\n')) return [name, signAgain(changed)];
  }
}

function changeLine(pattern: RegExp, change: (line: string) => string): Tampering {
  return ({ lines, random }) => {
    const at = anyLine(lines, pattern, random);
    return at === -1 ? undefined : lines.with(at, change(lines[at] ?? ''));
  };
}

function changeEvent(change: (line: string) => string): Tampering {
  return changeLine(EVENT, change);
}

function anyLine(lines: readonly string[], pattern: RegExp, random: () => number): number {
  const found = [...lines.keys()].filter((at) => pattern.test(lines[at] ?? ''));
  return found[Math.floor(random() * found.length)] ?? -1;
}

/** Corrects the number of events in the line of the batch before a changed event. */
function countAgain(lines: readonly string[], at: number, more: number): readonly string[] {
  const batch = lines.findLastIndex((line, index) => index < at && /"path":/.test(line));
  const count = /"events":(\d+)/;
  return lines.with(
    batch,
    (lines[batch] ?? '').replace(count, (_, was: string) => `"events":${Number(was) + more}`),
  );
}

/** The index after the events of the batch at `from`. */
function endOf(lines: readonly string[], from: number): number {
  const end = lines.findIndex((line, at) => at > from && !EVENT.test(line));
  return end === -1 ? lines.length : end;
}

function withoutStart(line: string): string {
  return line.replace(/"previous":"\w+",/, '');
}

function parse(line = '{}'): Line {
  return JSON.parse(line) as Line;
}
