// What a chart over time draws: series of values, and marks on its axis.

export interface Series {
  /** Names the series in links and tests; different for each. */
  key: string;
  label: string;
  color: string;
  /** One value per bucket; null where there is none. */
  values: readonly (number | null)[];
}

/** Something that happened, beside what is counted. */
export interface TimeMark {
  ms: number;
  text: string;
  /** `bad`: it began; `good`: it ended; `note`: what people did. */
  tone: 'bad' | 'good' | 'note';
}
