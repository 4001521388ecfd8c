import { zstdCompressSync } from 'node:zlib';
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import type { FocusVersion } from '../../settings/settings.ts';
import { type FocusColumn, FOCUS_COLUMNS, type FocusRow } from './columns.ts';

/** Most digits of a number in a Parquet file, and its bytes. */
const PRECISION = 38;
const DECIMAL_BYTES = 16;
/** Rows that are encoded at a time, in about 50 ms. */
const GROUP_ROWS = 2_000;

/** The types of the columns, with the conversion of a cell that is not written as text. */
const TYPES: Readonly<
  Record<
    FocusColumn['type'],
    { readonly element: Omit<SchemaElement, 'name'>; readonly convert?: (cell: string) => bigint }
  >
> = {
  String: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' } },
  JSON: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' } },
  'Date/Time': {
    element: {
      type: 'INT64',
      converted_type: 'TIMESTAMP_MILLIS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
    },
    convert: (cell) => BigInt(Date.parse(cell)),
  },
  Decimal: {
    element: {
      type: 'FIXED_LEN_BYTE_ARRAY',
      type_length: DECIMAL_BYTES,
      converted_type: 'DECIMAL',
      precision: PRECISION,
      scale: COST_PLACES,
    },
    convert: unitsOf,
  },
};

function schemaOf(columns: readonly FocusColumn[]): SchemaElement[] {
  return [
    { name: 'root', num_children: columns.length },
    ...columns.map(({ name, type }) => ({
      name,
      repetition_type: 'OPTIONAL' as const,
      ...TYPES[type].element,
    })),
  ];
}

/** Encodes rows as a Parquet file. Numbers are exact decimals, absent values are null. */
export class ParquetFile {
  readonly #columns: readonly FocusColumn[];
  readonly #writer = new ByteWriter();
  readonly #parquet: ParquetWriter;
  #group: FocusRow[] = [];

  constructor(version: FocusVersion) {
    this.#columns = FOCUS_COLUMNS[version];
    this.#parquet = new ParquetWriter({
      writer: this.#writer,
      schema: schemaOf(this.#columns),
      codec: 'ZSTD',
      statistics: false,
      compressors: { ZSTD: (bytes) => zstdCompressSync(bytes) },
      createdBy: 'meterfeed',
    });
  }

  add(row: FocusRow): void {
    this.#group.push(row);
    if (this.#group.length === GROUP_ROWS) this.#encode();
  }

  /** The complete file. Call it once. */
  finish(): Buffer {
    if (this.#group.length > 0) this.#encode();
    void this.#parquet.finish();
    return Buffer.from(this.#writer.getBuffer());
  }

  #encode(): void {
    const columnData = this.#columns.map(({ name, type }) => {
      const cells = this.#group.map((row) => row[name]);
      const { convert } = TYPES[type];
      if (convert === undefined) return { name, data: cells };
      const values = new Map<string | undefined, bigint | undefined>([[undefined, undefined]]);
      for (const cell of new Set(cells)) {
        if (cell !== undefined) values.set(cell, convert(cell));
      }
      return { name, data: cells.map((cell) => values.get(cell)) };
    });
    void this.#parquet.write({ columnData, rowGroupSize: GROUP_ROWS });
    this.#group = [];
  }
}

/** A decimal text in units of 10⁻²¹. */
function unitsOf(cell: string): bigint {
  const [complete = '', fraction = ''] = cell.split('.');
  return BigInt(complete + fraction.padEnd(COST_PLACES, '0'));
}
