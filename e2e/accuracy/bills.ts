import { setTimeout as delay } from 'node:timers/promises';
import { UNSEEN } from '../../operator/metering/windows/gaps.ts';
import { parseEvents, type ReceivedEvent } from '../long/received.ts';

/** A window as its report tells of it. */
export interface ClosedWindow {
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly end: number;
  readonly closedAt: number;
  readonly scopes: readonly string[];
  /** GPU-seconds that are neither billed, idle, down nor the system's. */
  readonly unaccounted: number;
}

/** What the operator says that it has billed. */
export interface Bills {
  windows(): Promise<readonly ClosedWindow[]>;
  /** Waits until the window of pods is closed that has this moment in it. */
  closedBeyond(moment: number): Promise<void>;
  events(): Promise<readonly ReceivedEvent[]>;
  /** Stretches in which what came and went is unknown; by source, and over all that it costs. */
  unseen(): Promise<readonly UnseenGap[]>;
}

export interface UnseenGap {
  /** The plural of the resource. */
  readonly source: string;
  readonly scopes: readonly string[];
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

interface GapGroup {
  readonly source: string;
  readonly reason: string;
  readonly scopes: readonly string[];
  readonly stretches: readonly { readonly from: string; readonly to: string }[];
}

interface Report {
  readonly window_start: string;
  readonly window_end: string;
  readonly closed_at: string;
  readonly scopes: readonly string[];
  readonly gpus?: { readonly models: readonly { readonly unaccounted: number }[] };
}

/** Asks at the address where the operator is at that time. */
export function createBills(address: () => string): Bills {
  const query = (path: string) => answered(() => fetch(`${address()}/api/v1/${path}`));
  const windows = async (): Promise<readonly ClosedWindow[]> => {
    const response = await query('windows?limit=1000');
    const { windows: reports } = (await response.json()) as { windows: readonly Report[] };
    return reports.map(closedWindow);
  };
  const gaps = async (): Promise<readonly GapGroup[]> => {
    const { open = [], ended = [] } = (await (await query('gaps')).json()) as Record<
      string,
      GapGroup[]
    >;
    return [...open, ...ended];
  };
  return {
    windows,
    closedBeyond: async (moment) => {
      const deadline = Math.max(Date.now(), moment) + 120_000;
      for (;;) {
        const closed = (await windows()).filter(({ scopes }) => scopes.includes('pods'));
        if (Math.max(0, ...closed.map(({ end }) => end)) > moment) return;
        if (Date.now() > deadline) throw new Error('accuracy: windows are not closed');
        await delay(500);
      }
    },
    events: async () => {
      const from = new Date(Date.now() - 6 * 3_600_000).toISOString();
      const to = new Date(Date.now() + 60_000).toISOString();
      const response = await fetch(`${address()}/api/v1/events?from=${from}&to=${to}`);
      if (!response.ok) throw new Error(`accuracy: export: HTTP ${response.status}`);
      return parseEvents(await response.text());
    },
    unseen: async () =>
      (await gaps())
        .filter(({ reason }) => reason === UNSEEN)
        .flatMap(({ source, scopes, stretches }) =>
          stretches.map(({ from, to }) => {
            return { source, scopes, from: Date.parse(from), to: Date.parse(to) };
          }),
        ),
  };
}

async function answered(query: () => Promise<Response>): Promise<Response> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const response = await query().catch(() => undefined);
    if (response?.ok === true) return response;
    if (Date.now() > deadline) throw new Error(`accuracy: windows: HTTP ${response?.status}`);
    await delay(500);
  }
}

function closedWindow({ scopes, gpus, ...times }: Report): ClosedWindow {
  const unaccounted = (gpus?.models ?? []).reduce((sum, one) => sum + Math.abs(one.unaccounted), 0);
  return {
    start: Date.parse(times.window_start),
    end: Date.parse(times.window_end),
    closedAt: Date.parse(times.closed_at),
    scopes,
    unaccounted,
  };
}
