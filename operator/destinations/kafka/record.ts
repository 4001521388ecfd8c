import { type CloudEvent, structuredEvent } from '../cloud-events.ts';
import type { ContentMode } from './settings.ts';

/** A record of a topic. */
export interface KafkaRecord {
  /** Decides the partition: records with the same key stay in order. */
  readonly key: Buffer;
  readonly value: Buffer;
  readonly headers: ReadonlyMap<Buffer, Buffer>;
}

/** The media type of a structured event. */
const STRUCTURED = 'application/cloudevents+json; charset=UTF-8';
const CONTENT_TYPE = 'content-type';
/** The prefix of headers with attributes. The data's media type has the record's own header. */
const PREFIX = 'ce_';
/** Lengths and numbers of a record, a header or a key; a generous estimate. */
const FRAME_BYTES = 8;

/**
 * Encodes a CloudEvent as a record with its subject as key, by the Kafka protocol binding
 * (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md).
 */
export function recordOf(event: CloudEvent, mode: ContentMode): KafkaRecord {
  const { subject = '', datacontenttype = '', ...rest } = event.attributes;
  const key = Buffer.from(subject);
  if (mode === 'structured') {
    return {
      key,
      value: Buffer.from(structuredEvent(event)),
      headers: headers({ [CONTENT_TYPE]: STRUCTURED }),
    };
  }
  const attributes = Object.entries({ ...rest, subject }).map(([name, text]) => [
    PREFIX + name,
    text,
  ]);
  return {
    key,
    value: Buffer.from(event.data),
    headers: headers({ ...Object.fromEntries(attributes), [CONTENT_TYPE]: datacontenttype }),
  };
}

/** Returns the bytes that a record takes up in a batch at most. */
export function recordBytes({ key, value, headers }: KafkaRecord): number {
  const parts = [...headers].map(([name, text]) => name.length + text.length + FRAME_BYTES);
  const inHeaders = parts.reduce((sum, bytes) => sum + bytes, 0);
  return key.length + value.length + inHeaders + 2 * FRAME_BYTES;
}

function headers(entries: Readonly<Record<string, string>>): ReadonlyMap<Buffer, Buffer> {
  return new Map(
    Object.entries(entries).map(([name, text]) => [Buffer.from(name), Buffer.from(text)]),
  );
}
