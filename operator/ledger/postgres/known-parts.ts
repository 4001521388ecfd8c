import { crc32 } from 'node:zlib';

/**
 * The CRC-32 of a text most of which is known before. CRC-32 is linear: behind a part it is what zeros in place of the part
 * would make of it, and the part's own on top (https://www.zlib.net/manual.html, `crc32_combine`); both are the same
 * whatever stands before.
 */
export interface KnownPart {
  /** Signed. */
  readonly checksum: number;
  readonly bytes: number;
}

/** What a run of zeros makes of a checksum: 256 values for each byte of it, the lowest first. */
type Zeros = Int32Array;

const POLYNOMIAL = 0xedb88320;
const VALUES = 256;
const BITS = 32;
/** No text is longer than so many doublings of one byte. */
const DOUBLINGS = 31;

/** What a byte makes of a checksum. */
const BYTES = Int32Array.from({ length: VALUES }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest % 2 === 0 ? 0 : POLYNOMIAL);
  return rest;
});

/** Runs of one byte, of two, of four, and so on. */
const ONE = zerosFrom((rest) => behindByte(rest, 0));
const TWO = doubled(ONE);
const FOUR = doubled(TWO);
const RUNS: readonly Zeros[] = runsOfZeros();

/** Runs of any length that most parts have, as far as they were needed; all of them together take 4 MiB. */
const SHORT_RUNS: (Zeros | undefined)[] = [];
const SHORT_DOUBLINGS = 10;

export function knownPart(text: string): KnownPart {
  return { checksum: crc32(text) | 0, bytes: Buffer.byteLength(text) };
}

/** The checksum behind a part, signed. */
export function behindPart(checksum: number, { bytes, checksum: own }: KnownPart): number {
  const short = bytes % 2 ** SHORT_DOUBLINGS;
  let rest = checksum;
  if (short > 0) rest = behindZeros(rest, (SHORT_RUNS[short] ??= joined(runsOf(short))));
  if (bytes > short) rest = runsOf(bytes - short).reduce(behindZeros, rest);
  return rest ^ own;
}

/** The checksum behind a text of ASCII characters, signed. */
export function behindText(checksum: number, text: string): number {
  const ofFours = text.length - (text.length % 4);
  let rest = ~checksum;
  for (let at = 0; at < ofFours; at += 4) {
    const low = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8);
    const high = (text.charCodeAt(at + 2) << 16) | (text.charCodeAt(at + 3) << 24);
    rest = behindZeros(rest ^ low ^ high, FOUR);
  }
  for (let at = ofFours; at < text.length; at++) rest = behindByte(rest, text.charCodeAt(at));
  return ~rest;
}

function behindByte(rest: number, byte: number): number {
  return (BYTES[(rest ^ byte) & 0xff] ?? 0) ^ (rest >>> 8);
}

function behindZeros(rest: number, zeros: Zeros): number {
  return (
    (zeros[rest & 0xff] ?? 0) ^
    (zeros[0x100 | ((rest >>> 8) & 0xff)] ?? 0) ^
    (zeros[0x200 | ((rest >>> 16) & 0xff)] ?? 0) ^
    (zeros[0x300 | (rest >>> 24)] ?? 0)
  );
}

function runsOfZeros(): readonly Zeros[] {
  const runs = [ONE, TWO, FOUR];
  for (let run = doubled(FOUR); runs.length < DOUBLINGS; run = doubled(run)) runs.push(run);
  return runs;
}

/** Those which make so many zeros together. */
function runsOf(bytes: number): readonly Zeros[] {
  return RUNS.filter((_, doublings) => ((bytes >>> doublings) & 1) === 1);
}

/** One run in place of several. */
function joined(runs: readonly Zeros[]): Zeros {
  return zerosFrom((rest) => runs.reduce(behindZeros, rest));
}

/** Twice as many. */
function doubled(zeros: Zeros): Zeros {
  return zerosFrom((rest) => behindZeros(behindZeros(rest, zeros), zeros));
}

/** What a linear function makes of each value of each byte. */
function zerosFrom(make: (rest: number) => number): Zeros {
  const zeros = new Int32Array((BITS / 8) * VALUES);
  for (let index = 0; index < zeros.length; index++) {
    zeros[index] = make((index % VALUES) << (8 * Math.floor(index / VALUES)));
  }
  return zeros;
}
