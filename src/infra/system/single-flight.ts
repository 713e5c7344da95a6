/** One execution of a task that several callers wait for. */
export interface Flight<Value> {
  readonly result: Promise<Value>
  /** Whether `forget` was called during the flight, so that its result may be out of date. */
  isForgotten: boolean
}

/** Runs one task per key at a time. Callers that ask for a key while its task runs get the same result. */
export class SingleFlight<Value> {
  readonly #flights = new Map<string, Flight<Value>>()

  has (key: string): boolean {
    return this.#flights.has(key)
  }

  /**
   * @param task starts after this call has returned; it receives its own flight
   * @throws the error of the task
   */
  run (key: string, task: (flight: Flight<Value>) => Promise<Value>): Promise<Value> {
    const underWay = this.#flights.get(key)
    if (underWay !== undefined) return underWay.result
    const flight: { isForgotten: boolean, result: Promise<Value> } = {
      isForgotten: false,
      result: Promise.resolve().then(async () => {
        try {
          return await task(flight)
        } finally {
          if (this.#flights.get(key) === flight) this.#flights.delete(key)
        }
      })
    }
    this.#flights.set(key, flight)
    return flight.result
  }

  /** Makes the next caller start a new flight, even if one is still running. */
  forget (key: string): void {
    const flight = this.#flights.get(key)
    if (flight === undefined) return
    flight.isForgotten = true
    this.#flights.delete(key)
  }
}
