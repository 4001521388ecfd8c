import type { Ledger } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Gap } from '../windows/gaps.ts';
import type { Part } from './parts.ts';
import type { Role } from './role.ts';

export interface MetersWordOptions {
  readonly ledger: Pick<Ledger, 'record' | 'writeRecords'>;
  readonly role: Pick<Role, 'leads'>;
  /** Of this process, for when it is the meter. */
  readonly gaps: () => readonly Gap[];
  readonly clock: Clock;
}

/** What replicas that feed have to know of the meter: who may still be billed for what could not be measured yet. */
export interface MetersWord {
  /** Its gaps, as it wrote them last; undefined while nothing was read. */
  readonly gaps: () => readonly Gap[] | undefined;
  /** Writes it while this process is the meter, and reads it while it is not. */
  readonly part: Part;
}

const KEY = 'meter/gaps';
const EVERY_MS = 5_000;

export function createMetersWord({ ledger, role, gaps, clock }: MetersWordOptions): MetersWord {
  let said: string | undefined;
  let heard: readonly Gap[] | undefined;

  const write = async (): Promise<void> => {
    const value = JSON.stringify({ v: 1, gaps: gaps() });
    if (value === said) return;
    const outcome = await ledger.writeRecords([{ key: KEY, value }]);
    if (outcome.kind === 'written') said = value;
  };
  const read = async (): Promise<void> => {
    const text = await ledger.record(KEY);
    if (text !== undefined) heard = parse(text);
  };
  return {
    gaps: () => heard,
    part: {
      name: "the meter's word",
      run: async (signal) => {
        while (!signal.aborted) {
          // What could not be read or written now is so in five seconds.
          await (role.leads() ? write() : read()).catch(() => undefined);
          await clock.sleep(EVERY_MS, signal).catch(() => undefined);
        }
      },
    },
  };
}

/** Only this module writes the record. */
function parse(text: string): readonly Gap[] | undefined {
  const value: unknown = JSON.parse(text);
  if (!isRecord(value) || value['v'] !== 1) return undefined;
  const { gaps } = value as { readonly gaps?: readonly Gap[] };
  return gaps;
}
