import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Explanation, explain } from '../metering/explanation.ts';
import type { Settled } from '../metering/credits.ts';
import type { Logger } from '../telemetry/logger.ts';
import { errorText } from '../model/error-text.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import { readExplanationFile, writeExplanationFile } from './explanation-file.ts';

/**
 * What stands behind each number of the last 24 hours, in files of their own: one for each closing of
 * a window, the oldest going first where all of them would take too much room. They bear on no bill:
 * losing them loses explanations, and nothing else (docs/metering.md#what-stands-behind-a-number).
 */
export interface Explanations {
  /** Finds the files that an earlier process left. */
  open(): Promise<void>;
  /** Keeps what the events of a window were made of; call it when the ledger has them. Never fails. */
  keep(closed: ClosedWindow): Promise<void>;
  find(event: Pick<UsageEvent, 'id' | 'tenant' | 'window_end'>): Promise<Found>;
}

/** The events of one closing of a window, each with what it was made of. */
export interface ClosedWindow {
  readonly window: Window;
  /** Milliseconds since the epoch; a window whose scopes are closed apart is closed several times. */
  readonly closedAt: number;
  readonly events: readonly UsageEvent[];
  readonly sources: readonly Settled[];
}

export type Found =
  | { readonly kind: 'found'; readonly explanation: Explanation }
  /** Why there is none. */
  | { readonly kind: 'gone'; readonly reason: string };

export interface ExplanationsOptions {
  readonly directory: string;
  /** The room for all files, bytes; asked again with every window. None at 0. */
  readonly room: () => number;
  readonly now: () => number;
  readonly logger: Logger;
}

const KEPT_MS = 24 * 3_600_000;

/** The files of one hour's windows lean on the first of them, and go together. */
const GROUP_MS = 3_600_000;

interface KeptFile {
  readonly name: string;
  /** End of the window, milliseconds since the epoch. */
  readonly end: number;
  readonly bytes: number;
}

const NAME = /^(\d+)-\d+\.explanations$/;

function groupOf({ end }: Pick<KeptFile, 'end'>): number {
  return Math.floor(end / GROUP_MS);
}

export function createExplanations(options: ExplanationsOptions): Explanations {
  return new ExplanationStore(options);
}

class ExplanationStore implements Explanations {
  readonly #options: ExplanationsOptions;
  /** Oldest first. */
  #files: readonly KeptFile[] = [];
  #failing = false;

  constructor(options: ExplanationsOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    const { directory } = this.#options;
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const found: KeptFile[] = [];
      for (const name of await readdir(directory)) {
        const end = Number(NAME.exec(name)?.[1] ?? Number.NaN);
        if (Number.isNaN(end)) await rm(this.#path(name), { force: true, recursive: true });
        else found.push({ name, end, bytes: (await stat(this.#path(name))).size });
      }
      this.#files = found.toSorted((a, b) => a.end - b.end);
      await this.#prune();
    } catch (error) {
      this.#warn('cannot be read', error);
    }
  }

  async keep(closed: ClosedWindow): Promise<void> {
    const { now, room } = this.#options;
    try {
      const isOld = closed.window.end < now() - KEPT_MS;
      if (closed.events.length > 0 && !isOld && room() > 0) await this.#write(closed);
      await this.#prune();
      this.#failing = false;
    } catch (error) {
      this.#warn('cannot be written', error);
    }
  }

  async find(event: Pick<UsageEvent, 'id' | 'tenant' | 'window_end'>): Promise<Found> {
    const end = Date.parse(event.window_end);
    if (end < this.#options.now() - KEPT_MS) {
      return { kind: 'gone', reason: 'explanations are kept for 24 hours after the window' };
    }
    for (const { name } of this.#files.filter((kept) => kept.end === end)) {
      const explanation = await explanationIn(this.#path(name), event.tenant, event.id);
      if (explanation !== undefined) return { kind: 'found', explanation };
    }
    return {
      kind: 'gone',
      reason:
        'it was not kept: there was no room for it, or the process ended before it was written',
    };
  }

  /** Whole groups go, the oldest first, where they are too old or all files together too large. */
  async #prune(): Promise<void> {
    const oldest = this.#options.now() - KEPT_MS;
    const most = this.#options.room();
    let bytes = this.#files.reduce((sum, file) => sum + file.bytes, 0);
    const kept: KeptFile[] = [];
    for (const group of Map.groupBy(this.#files, groupOf).values()) {
      if (bytes <= most && group.some(({ end }) => end >= oldest)) {
        for (const one of group) kept.push(one);
        continue;
      }
      for (const { name, bytes: freed } of group) {
        bytes -= freed;
        await rm(this.#path(name), { force: true });
      }
    }
    this.#files = kept;
  }

  async #write(closed: ClosedWindow): Promise<void> {
    const { end } = closed.window;
    const name = `${end}-${closed.closedAt}.explanations`;
    const group = this.#files.filter((file) => groupOf(file) === groupOf({ end }));
    // The first that was written, which leans on none.
    const [base] = group.toSorted(byClosing);
    const bytes = await writeExplanationFile(this.#path(name), blocksOf(closed), base?.name);
    const others = this.#files.filter((file) => file.name !== name);
    this.#files = [...others, { name, end, bytes }].toSorted((a, b) => a.end - b.end);
  }

  /** One line for each time that it begins to fail. */
  #warn(what: string, error: unknown): void {
    const { directory, logger } = this.#options;
    const reason = errorText(error);
    const line = `[controller] explanations: ${what}: "${directory}": ${reason}; billing goes on without`;
    if (!this.#failing) logger.warn(line);
    this.#failing = true;
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }
}

/** By the time at which the window was closed, which is the latter part of the name. */
function byClosing(a: KeptFile, b: KeptFile): number {
  return closingOf(a) - closingOf(b);
}

function closingOf({ name }: KeptFile): number {
  return Number(/-(\d+)\./.exec(name)?.[1]);
}

async function explanationIn(
  path: string,
  tenant: string,
  id: string,
): Promise<Explanation | undefined> {
  // A file that is dropped or damaged has nothing to say, which is no reason to fail.
  const text = await readExplanationFile(path, tenant).catch(() => undefined);
  const mark = JSON.stringify({ id }).slice(0, -1);
  const line = text?.split('\n').find((candidate) => candidate.startsWith(mark));
  return line === undefined ? undefined : (JSON.parse(line) as Explanation);
}

/** One line an event, tenant by tenant; made when they are asked for, since all at once are many. */
function* blocksOf({
  events,
  sources,
}: ClosedWindow): Generator<readonly [tenant: string, text: string]> {
  const byTenant = Map.groupBy(events.keys(), (index) => events[index]?.tenant ?? '');
  for (const [tenant, indices] of byTenant) {
    const lines = indices.flatMap((index) => {
      const [event, settled] = [events[index], sources[index]];
      if (event === undefined || settled === undefined) return [];
      return JSON.stringify(explain(event.id, settled));
    });
    yield [tenant, lines.join('\n')];
  }
}
