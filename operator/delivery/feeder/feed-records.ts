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
import type { FeederOptions } from './feeder-options.ts';
import { Pending } from './pending.ts';

/** What is known of the events of one destination and of its tenants: in memory as it is in the ledger's records. */
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
  /** What was set aside by earlier processes is in memory. */
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
      log.warn(`parked ${tenant}`, `[${name}] tenant ${tenant} is set aside: ${reason}`),
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

  /** Where the cursor is in the ledger; undefined before there is one. */
  cursor(): number | undefined {
    const own = this.ledger.cursors().find(({ destination }) => destination === this.#name);
    return own?.sequence;
  }

  /** Begins at a position, with what earlier processes have set aside. Events sent before up to `resentUntil` may be there. */
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
