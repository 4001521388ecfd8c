import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { UsageEvent } from '../../model/event.ts';
import { Explainer } from '../meters/explanation.ts';
import { readEvidence } from './evidence-file.ts';
import type { FoundExplanation } from './explanations.ts';

const DAY_MS = 24 * 3_600_000;
const NAME = /^(\d{4}-\d\d-\d\d)-(\d+)\.evidence$/;

/**
 * Reads the evidence files of an earlier release: one or more for each day (UTC) on which windows
 * were closed. They are read until their events expire, and never written.
 */
export class EvidenceFiles {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Deletes files of days before `oldestEventAt`, milliseconds since the epoch. Never throws. */
  async prune(oldestEventAt: number): Promise<void> {
    for (const name of await this.#names()) {
      const [, date = ''] = NAME.exec(name) ?? [];
      // An event may be stored a moment after it was recorded, or once the volume has room again.
      const isOld = Date.parse(date) + 2 * DAY_MS <= oldestEventAt;
      if (isOld) await rm(join(this.#directory, name), { force: true }).catch(() => undefined);
    }
  }

  /** Explains an event; undefined if no file does. */
  async find(event: UsageEvent): Promise<FoundExplanation | undefined> {
    const closing = { end: Date.parse(event.window_end), closedAt: Date.parse(event.recorded_at) };
    const date = new Date(closing.closedAt).toISOString().slice(0, 10);
    const ofDay = (await this.#names()).filter((name) => NAME.exec(name)?.[1] === date);
    for (const name of ofDay) {
      const explainer = new Explainer(event);
      const give = explainer.add.bind(explainer);
      const path = join(this.#directory, name);
      // A damaged file explains nothing, but is no reason to fail.
      const found = await readEvidence(path, event.tenant, closing, give).catch(() => undefined);
      if (found?.kind !== 'found') continue;
      const explanation = explainer.explanation(found.amounts);
      if (explanation !== undefined) return { kind: 'found', explanation };
    }
    return undefined;
  }

  async #names(): Promise<readonly string[]> {
    return readdir(this.#directory).catch(() => []);
  }
}
