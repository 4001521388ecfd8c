import type { Ledger } from '../../ledger/ledger.ts';
import type { CauseLog } from '../../telemetry/cause-log.ts';
import { OffboardRequests } from '../lanes/offboarding.ts';
import { ParkedTenants } from '../lanes/parked-tenants.ts';
import { PlanChanges } from '../lanes/plan-changes.ts';
import { LateLines } from '../late/late-lines.ts';
import { createAcknowledgements, NO_ACKNOWLEDGEMENTS } from '../records/acknowledgements.ts';
import type { Acknowledgements } from '../records/acknowledgements.ts';
import { DeadLetterIndex } from '../records/dead-letters.ts';
import { createDeliveryRecords, type DeliveryRecords } from '../records/delivery-records.ts';
import { InFlight } from '../records/in-flight.ts';
import { SettlementWriter } from '../records/settlement-writer.ts';
import type { FeederOptions } from '../delivery-options.ts';
import { Pending } from './pending.ts';

/** The ledger records of one destination's events and tenants, with their indexes in memory. */
export class FeedRecords {
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: DeadLetterIndex;
  readonly inFlight: InFlight;
  readonly acknowledgements: Acknowledgements;
  readonly lateLines: LateLines;
  readonly parked: ParkedTenants;
  readonly leaving: OffboardRequests;
  readonly changes: PlanChanges;
  readonly pending: Pending;
  readonly settlements: SettlementWriter;
  readonly #name: string;
  /** Whether the records of earlier processes are in memory. */
  #loaded = false;

  constructor(options: FeederOptions, log: CauseLog) {
    const { settings, destination, ledger, clock, random } = options;
    const { name, planChange = 'now' } = settings;
    const records = createDeliveryRecords(ledger, name);
    const stored = { ledger, records, clock };
    this.#name = name;
    this.ledger = ledger;
    this.records = records;
    this.deadLetters = new DeadLetterIndex(records);
    this.inFlight = new InFlight(ledger, records, clock, destination.limits.idMemoryMs);
    this.acknowledgements =
      destination.sums === undefined
        ? createAcknowledgements(ledger, records)
        : NO_ACKNOWLEDGEMENTS;
    this.lateLines = new LateLines({ ...options, name, records });
    this.parked = new ParkedTenants(records, clock, random, (tenant, reason) =>
      log.warn(`parked ${tenant}`, `[${name}] tenant ${tenant} is parked: ${reason}`),
    );
    this.leaving = new OffboardRequests(stored);
    this.changes = new PlanChanges({
      ...stored,
      destination,
      planChange,
      deadLetters: this.deadLetters,
      isLeaving: (tenant) => this.leaving.has(tenant),
    });
    this.pending = new Pending(ledger, name);
    const { deadLetters, parked, inFlight, acknowledgements } = this;
    this.settlements = new SettlementWriter({
      ...stored,
      deadLetters,
      parked,
      inFlight,
      acknowledgements,
    });
  }

  /** Returns the sequence number of the cursor in the ledger; undefined without a cursor. */
  cursor(): number | undefined {
    const cursor = this.ledger.cursors().find(({ destination }) => destination === this.#name);
    return cursor?.sequence;
  }

  /**
   * Begins at a position and loads the records of earlier processes. The destination may already
   * have events up to `resentUntil`.
   */
  async open(position: number, resentUntil: number | undefined): Promise<void> {
    this.pending.reset(position);
    await this.inFlight.load(resentUntil);
    if (this.#loaded) return;
    await this.changes.load();
    await this.lateLines.load();
    await this.deadLetters.load();
    await this.acknowledgements.load();
    await this.parked.load();
    await this.leaving.load();
    this.#loaded = true;
  }
}
